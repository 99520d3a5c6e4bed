"""Builds mutants: each in a private copy of the user's files, with the original's objects for all that it does not touch.

A mutant's library is found in the store or put there, like any other, so a second run with the same mutants compiles
nothing. Where it is, byte for byte, the original's library, the compiler has made the same code of both: the mutant is
equivalent, and no check could tell it from the original.

Optimisation takes half of the time of a build, so a mutant is first built with little of it, which most of them do not
survive.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from opsmith.build.diagnose import explain_failure
from opsmith.build.key import key_inputs
from opsmith.build.ninja import run_steps
from opsmith.build.plan import INCLUDE_DIR, Plan, plan_extension
from opsmith.build.prebuilt import library_name
from opsmith.build.prepare import Prepared, prepare
from opsmith.build.record import describe_build, digests_for_record, read_headers
from opsmith.codegen.extension import assemble
from opsmith.errors import StoreError
from opsmith.spec.definition import Definition, Device, Group
from opsmith.store import Store, default_root, digest_file, edited_since, read_depfile, source_key

__all__ = ["Builder", "Built"]

_FIRST_ERROR = "error:"
_FULLY, _LITTLE = "-O3", "-O1"


@dataclass(frozen=True)
class Built:
    """A mutant's library with its digest, or the compiler's first error. `is_original` tells that it is the same code."""

    library: Path | None
    digest: str = ""
    error: str = ""
    is_original: bool = False


class Builder:
    """Builds a module's operators with faults in their sources. `scratch` is a folder that the caller removes."""

    def __init__(self, definitions: Sequence[Definition], device: Device, scratch: Path) -> None:
        """Build the original; raises BuildError, ToolchainError or DefinitionError as a load would."""
        self.definitions = tuple(definition for definition in definitions if definition.kernels)
        self.device = device
        self._scratch = scratch
        first = self.definitions[0]
        self._prepared: Prepared = prepare(Group(first.module, first.file, self.definitions), (device,), strict=True)
        self._objects = scratch / "original"
        self._objects.mkdir()
        # The objects are needed beside the library, so this does not look into the store.
        if (output := run_steps(self.plan, self._objects, jobs=os.cpu_count() or 1)) is not None:
            raise explain_failure(self.plan, output)
        self.original = Built(self._objects / self.plan.library, digest_file(self._objects / self.plan.library))
        # Of the original with little optimisation in some objects, by the names of these.
        self._quick_digests: dict[frozenset[str], str] = {}

    @property
    def plan(self) -> Plan:
        """The original's plan."""
        return self._prepared.plan

    @cached_property
    def sources(self) -> tuple[Path, ...]:
        """The user's sources of the device's kernels."""
        return tuple(dict.fromkeys(user for step in self.plan.steps for user in step.users))

    @cached_property
    def headers(self) -> tuple[Path, ...]:
        """The user's headers that the sources include, as the compiler reports them."""
        headers = read_headers(self.plan, self._prepared.toolchain, self._objects)
        found = dict.fromkeys(header.resolve() for header in headers)
        generated = self._objects.resolve()
        return tuple(
            file
            for file in found
            if not file.is_relative_to(INCLUDE_DIR) and not file.is_relative_to(generated) and file not in self.sources
        )

    @cached_property
    def texts(self) -> dict[Path, str]:
        """The texts of all of the user's files that are compiled, as they were at first."""
        return {file: file.read_text(encoding="utf-8", errors="surrogateescape") for file in self._files}

    def prepare_quick(self, files: Sequence[Path]) -> None:
        """Build what quick mutants of some files are compared with; their builds may then be made in other processes."""
        for index, file in enumerate(files):
            objects = self._objects_of({file})
            if objects not in self._quick_digests:
                self._quick_digests[objects] = self.build(f"quick{index}", {file: self.texts[file]}, quick=True).digest

    def build(self, name: str, changed: Mapping[Path, str], *, quick: bool = False) -> Built:
        """Return the library with other texts for some files; `name` is a new folder's. `quick` optimises little."""
        folder = self._scratch / name
        root = folder / "sources"
        moved = {file: root / file.relative_to(self._common) for file in self._files}
        for file, copy in moved.items():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(changed.get(file, self.texts[file]), encoding="utf-8", errors="surrogateescape")
        plan = self._plan_in(root, moved)
        try:
            objects = self._objects_of(changed)
            built = self._obtain(_optimised_little(plan, objects) if quick else plan, folder, objects)
            known = self._quick_digests.get(objects) if quick else self.original.digest
            return replace(built, is_original=built.library is not None and built.digest == known)
        finally:
            shutil.rmtree(root, ignore_errors=True)

    @cached_property
    def _files(self) -> tuple[Path, ...]:
        return (*self.sources, *self.headers)

    @cached_property
    def _common(self) -> Path:
        """The folder that all files, and the definitions' own, are below."""
        return Path(os.path.commonpath([*(file.parent for file in self._files), *(d.root for d in self.definitions)]))

    def _plan_in(self, root: Path, moved: Mapping[Path, Path]) -> Plan:
        definitions = [
            replace(
                definition,
                file=root / definition.file.relative_to(self._common),
                kernels={
                    device: replace(kernel, sources=tuple(moved.get(source, source) for source in kernel.sources))
                    for device, kernel in definition.kernels.items()
                    if device == self.device
                },
            )
            for definition in self.definitions
        ]
        for definition in definitions:
            definition.root.mkdir(parents=True, exist_ok=True)
        extension = assemble(definitions[0].module, definitions, (self.device,))
        extension = replace(extension, library=library_name(definitions[0].file))
        return plan_extension(extension, self._prepared.toolchain, self._prepared.target)

    def _objects_of(self, files: Iterable[Path]) -> frozenset[str]:
        """Return the objects that are made from some files."""
        wanted = {file.resolve() for file in files}
        found = set()
        for step in self.plan.steps:
            if step.depfile is not None:
                listed = read_depfile(self._objects / step.depfile, cwd=self._objects)
                if not wanted.isdisjoint(header.resolve() for header in listed):
                    found.add(step.output)
        return frozenset(found)

    def _obtain(self, plan: Plan, folder: Path, objects: frozenset[str]) -> Built:
        toolchain, target = self._prepared.toolchain, self._prepared.target
        inputs = key_inputs(plan, toolchain, target)
        store = Store(default_root())
        try:
            if (artifact := store.find(source_key(inputs), roots=plan.roots)) is not None:
                return Built(artifact.library, artifact.manifest.sha256)
        except StoreError:
            pass
        started_ns = time.time_ns()
        work = folder / "objects"
        work.mkdir(parents=True)
        kept = [step for step in plan.steps if step.depfile is not None and step.output not in objects]
        for step in kept:
            for name in filter(None, (step.output, step.depfile)):
                shutil.copyfile(self._objects / name, work / name)
        chosen = replace(plan, steps=tuple(step for step in plan.steps if step not in kept))
        if (output := run_steps(chosen, work, jobs=1)) is not None:
            return Built(None, error=_first_error(output))
        library = work / plan.library
        built = Built(library, digest_file(library))
        self._publish(plan, inputs, work, started_ns, store)
        return built

    def _publish(self, plan: Plan, inputs: Mapping[str, str], work: Path, started_ns: int, store: Store) -> None:
        """Put a library into the store; where that cannot be written to, the next run builds it again."""
        toolchain, target = self._prepared.toolchain, self._prepared.target
        headers = read_headers(plan, toolchain, work)
        try:
            digests = digests_for_record(plan, work, headers)  # first: an edit behind the digests would go unseen
            if edited_since([header for header in headers if header.is_relative_to(INCLUDE_DIR)], started_ns):
                return
            with store.staging() as staging:
                published = staging / "artifact"
                published.mkdir()
                library = published / plan.library
                shutil.copyfile(work / plan.library, library)
                manifest = describe_build(plan, toolchain, target, library, inputs)
                store.publish(source_key(inputs), published, manifest=manifest, headers=digests, roots=plan.roots)
        except (OSError, StoreError):
            return


def _optimised_little(plan: Plan, objects: frozenset[str]) -> Plan:
    """Return a plan in which some objects are optimised little."""
    steps = tuple(
        replace(step, argv=tuple(_LITTLE if word == _FULLY else word for word in step.argv))
        if step.output in objects
        else step
        for step in plan.steps
    )
    return replace(plan, steps=steps)


def _first_error(output: str) -> str:
    lines = [line for line in output.splitlines() if _FIRST_ERROR in line]
    return lines[0].partition(_FIRST_ERROR)[2].strip() if lines else output.strip().partition("\n")[0]
