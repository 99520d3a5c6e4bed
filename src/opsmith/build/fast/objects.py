"""Keeps the object files of a build in the store and reuses them in the next.

An edit of one file of twenty compiles one file, and a build that failed at the last goes on there. Objects lie in the
store as artefacts of their own: found by the same key as a library's, checked by digest, and evicted like the rest.

The compiler's dependency file names the headers of the checkout that it ran in. Beside an object lie their portable names
instead, from which a build in another checkout has a dependency file of its own: the library's record must hold the
headers that this one's user edits, and the other checkout may be gone.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from opsmith.build.key import key_inputs
from opsmith.build.plan import Plan, Step, Target
from opsmith.build.record import describe_build, digests_for_record, read_headers
from opsmith.errors import StoreError
from opsmith.spec.extension import ExistingSources
from opsmith.store import Store, edited_since, source_key
from opsmith.store.depfile import depfile_text
from opsmith.store.headers import portable_name, resolve_name
from opsmith.store.reading import parse_json, read_regular
from opsmith.toolchain import Toolchain

__all__ = ["fetch_objects", "keep_objects"]

_HEADERS = "headers.json"
_FORMAT = "2"  # 1 had the compiler's dependency file


def fetch_objects(plan: Plan, toolchain: Toolchain, target: Target, store: Store, folder: Path) -> frozenset[str]:
    """Put the known objects of a plan, with their dependency files, into the build folder; return their names."""
    return frozenset(
        step.output for step in _worth_keeping(plan) if _fetch(_only(plan, step), toolchain, target, store, folder)
    )


def keep_objects(
    plan: Plan,
    toolchain: Toolchain,
    target: Target,
    store: Store,
    folder: Path,
    *,
    known: frozenset[str],
    since_ns: int,
) -> None:
    """Put the objects that a build has made since `since_ns` into the store, but for the known ones.

    After a failed build too: what compiled need not be compiled again. A store that cannot be written is not an error here.
    """
    for step in _worth_keeping(plan):
        if step.output in known or not (folder / step.output).is_file():
            continue
        try:
            _keep(_only(plan, step), toolchain, target, store, folder, since_ns)
        except (OSError, StoreError):
            return


def _worth_keeping(plan: Plan) -> list[Step]:
    """Return the steps that take long, where there are several: a single object is no better than its library."""
    names = {f"{source.name}.o" for source in plan.extension.sources if source.api == "full"}
    steps = [step for step in plan.steps if step.output in names]
    return steps if len(steps) > 1 else []


def _only(plan: Plan, step: Step) -> Plan:
    """Return the part of a plan that makes one object; its key is the object's."""
    files = {name: text for name, text in plan.files.items() if name in step.inputs}
    extension = replace(plan.extension, link_flags=())
    if isinstance(extension, ExistingSources):
        extension = replace(extension, libraries=None, library_dirs=())
    return replace(plan, steps=(step,), files=files, library=step.output, extension=extension)


def _inputs(part: Plan, toolchain: Toolchain, target: Target) -> dict[str, str]:
    return {**key_inputs(part, toolchain, target), "object": _FORMAT}


def _fetch(part: Plan, toolchain: Toolchain, target: Target, store: Store, folder: Path) -> bool:
    found = store.find(source_key(_inputs(part, toolchain, target)), roots=part.roots)
    if found is None:
        return False
    step = part.steps[0]
    try:
        shutil.copyfile(found.library, folder / step.output)
        if step.depfile is not None:
            headers = _resolved(read_regular(found.folder / _HEADERS), part.roots)
            (folder / step.depfile).write_text(depfile_text(step.output, headers), errors="surrogateescape")
    except (OSError, ValueError):
        (folder / step.output).unlink(missing_ok=True)
        return False
    return True


def _resolved(text: bytes, roots: Mapping[str, Path]) -> list[Path]:
    """Return the headers of their portable names; raises ValueError for one that is not below a root of this plan."""
    headers = [resolve_name(name, roots) for name in parse_json(text)]
    if None in headers:
        raise ValueError("a root of another plan")
    return [header for header in headers if header is not None]


def _keep(part: Plan, toolchain: Toolchain, target: Target, store: Store, folder: Path, since_ns: int) -> None:
    step = part.steps[0]
    headers = read_headers(part, toolchain, folder)
    # Before the question: what is saved after it must not be what is recorded.
    digests, inputs = digests_for_record(part, folder, headers), _inputs(part, toolchain, target)
    if edited_since([*headers, *step.users], since_ns):
        return
    with store.staging() as scratch:
        published = scratch / "artifact"
        published.mkdir()
        kept = published / Path(step.output).name
        shutil.copyfile(folder / step.output, kept)
        (published / _HEADERS).write_text(json.dumps([portable_name(str(header), part.roots) for header in headers]))
        manifest = describe_build(part, toolchain, target, kept, inputs, kind="object")
        store.publish(source_key(inputs), published, manifest=manifest, headers=digests, roots=part.roots)
