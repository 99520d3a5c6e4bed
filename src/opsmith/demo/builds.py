"""The demo's builds: LLTM by JIT, setuptools and CMake, each from nothing and timed."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import opsmith
from opsmith.build.builders import BUILDERS, Request, build_group, require_builder
from opsmith.build.devices import wanted_devices
from opsmith.build.discover import discover
from opsmith.build.ninja import Progress
from opsmith.build.plan import Plan
from opsmith.build.prepare import Prepared, prepare
from opsmith.build.watcher import Watcher
from opsmith.demo.screen import Screen, Step
from opsmith.demo.table import GOOD, NEITHER, Table
from opsmith.errors import BuildError, ToolchainError
from opsmith.spec.definition import Device, Group

__all__ = ["Build", "are_identical", "build_all", "build_one", "build_table", "find_group", "prepare_group"]

_SOURCES = frozenset({".cpp", ".cu", ".cuh", ".h", ".py"})


@dataclass(frozen=True)
class Build:
    """One library: how it was built, in what time, and what came out; `left_out` says why there is none."""

    builder: str
    seconds: float = 0.0
    library: str = ""
    size_bytes: int = 0
    sha256: str = ""
    left_out: str | None = None


def find_group() -> Group:
    """Return the definitions of LLTM's operators."""
    from opsmith.ops.lltm import lltm_cell

    (group,) = discover(lltm_cell.definition.module)
    return group


def prepare_group(group: Group) -> Prepared:
    """Return the plan for the devices that this machine can build for and run; raises ToolchainError without a compiler.

    Asking the compilers who they are happens here, once, so that no build is charged for it.
    """
    return prepare(group, wanted_devices(group.definitions))


def build_all(group: Group, devices: Sequence[Device], folder: Path, screen: Screen) -> list[Build]:
    """Build a group in each way into folders of its own below `folder`, which are emptied before.

    The JIT's store is the one that is set; it should be empty. A builder that is not installed is left out with a
    reason; every other failure is raised: CompileError, ToolchainError, StoreError, and BuildError where a source changes
    in between.
    """
    before = _digest_sources(group)
    builds = [build_one(group, builder, devices, folder / builder, screen) for builder in BUILDERS]
    if _digest_sources(group) != before:
        raise BuildError(
            "a source was edited while the three builds ran, so they cannot be compared; run the demo again"
        )
    return builds


def build_one(group: Group, builder: str, devices: Sequence[Device], folder: Path, screen: Screen) -> Build:
    """Build a group in one way and time it."""
    shutil.rmtree(folder, ignore_errors=True)
    request = Request(tuple(devices), output=folder.absolute())
    with screen.step(builder) as step:
        started = time.perf_counter()
        try:
            require_builder(builder)
            library = build_group(group, builder, request, _watch(step)).library
        except ToolchainError as error:
            if builder == "jit":
                raise  # no builder can do without what the JIT needs
            build = Build(builder, left_out=str(error))
        else:
            seconds = time.perf_counter() - started
            data = library.read_bytes()
            build = Build(builder, seconds, _shown(library), len(data), hashlib.sha256(data).hexdigest())
    shutil.rmtree(folder / "work", ignore_errors=True)
    if build.left_out is None:
        screen.line(f"{GOOD} {builder:<10}  {build.seconds:5.1f} s")
    else:
        screen.line(f"{NEITHER} {builder:<10}  left out: {build.left_out}")
    return build


def are_identical(builds: Sequence[Build]) -> bool:
    """Whether all libraries have the same bytes."""
    return len({build.sha256 for build in builds if build.left_out is None}) == 1


def build_table(builds: Sequence[Build], devices: Sequence[Device]) -> Table:
    """Return the builds as a table."""
    rows = []
    for build in builds:
        if build.left_out is None:
            size = f"{build.size_bytes / 1024:.0f} KB"
            rows.append((build.builder, f"{build.seconds:.1f} s", size, build.sha256[:8], build.library))
        else:
            rows.append((build.builder, "left out", "", "", build.left_out))
    done = sum(build.left_out is None for build in builds)
    if done > 1 and are_identical(builds):
        note = f"The {done} libraries are identical, byte for byte."
    else:
        note = "The libraries differ in their bytes; what is promised is that their results do not."
    note = f"Built for {' and '.join(devices)}, each from nothing. {note if done > 1 else ''}".strip()
    return Table("Three builds", ("built with", "time", "size", "sha256", "library"), "lrrll", tuple(rows), note)


def _digest_sources(group: Group) -> str:
    """Return a digest of the operators' folder and of the headers that come with opsmith."""
    digest = hashlib.sha256()
    for folder in (group.file.parent, Path(opsmith.__file__).parent / "include"):
        for file in sorted(folder.rglob("*")):
            if file.suffix in _SOURCES:
                digest.update(f"{file}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _shown(path: Path) -> str:
    """Return a path relative to the current folder where it lies below it."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def _watch(step: Step) -> Watcher:
    def start(plan: Plan) -> None:
        step.advance(0, len(plan.steps), "")

    def progress(progress: Progress) -> None:
        step.advance(progress.done, progress.total, progress.step)

    return Watcher(start, progress)
