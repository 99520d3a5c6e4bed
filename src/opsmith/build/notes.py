"""Finds the artefact that a request had in an earlier process, if nothing that decides it has changed.

A plan needs the toolchain, the code generator and the planner, and importing those takes longer than everything else in
loading a finished library. What a plan depends on is quick to compare, though: the request, opsmith's own files, the
environment, the compilers, torch, the GPUs, the processor, the user's sources, and what those are linked with. Where all
are as they were, the source key is as it was, and the store finds the artefact by that key and by the headers as they are
now. Where anything differs, or the note is damaged, there is no shortcut and nothing is lost.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from opsmith import _env
from opsmith._version import __version__
from opsmith.store import Artifact, Store, digest, digest_file, source_key
from opsmith.store.reading import parse_json, read_regular

__all__ = ["find_noted", "note_version", "write_note"]

_FORMAT_VERSION = 3
_PACKAGE = Path(__file__).resolve().parent.parent
# The folders whose code decides what a plan is.
_DECIDING = ("spec", "codegen", "build", "toolchain", "cpp_extension")
# The programs that are looked for on PATH. Another one found there is another toolchain.
_HOST_COMPILERS = ("c++", "g++", "clang++")
_PROGRAMS = (*_HOST_COMPILERS, "nvcc", "hipcc", "icpx")

# The coarsest that a file system's times are (FAT has two seconds).
_COARSEST_CLOCK_NS = 2_000_000_000


def find_noted(
    store: Store,
    request: Iterable[str],
    sources: Iterable[Path],
    *,
    linked: Iterable[Path] = (),
    with_gpu: bool = False,
) -> Artifact | None:
    """Return the artefact that a plan for this request would find, or None if a plan must be made.

    `request` are texts that identify the request, `sources` the user's files behind it, and `linked` those that its
    library is linked with (`linked_files`). On a machine without a C++ compiler no compiler can have changed, so a
    finished artefact is used anyway.

    Raises StoreError as `Store.find`: a plan would lead there too, or on such a machine to the lack of a compiler, which
    is not what is wrong.
    """
    try:
        note = parse_json(read_regular(_note_path(store, request)))
        if note["state"] != _state(sources, with_gpu=with_gpu):
            return None
        if not (_same_compilers(note) and _same_processor(note) and _same_linked(note, linked)):
            return None
        return store.find(note["source_key"], roots={name: Path(root) for name, root in note["roots"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_note(
    store: Store,
    request: Iterable[str],
    sources: Iterable[Path],
    artifact: Artifact,
    roots: Mapping[str, Path],
    *,
    linked: Iterable[Path] = (),
    with_gpu: bool = False,
) -> None:
    """Record what a plan has just found, with arguments as for `find_noted`.

    A linked file that is not what the artefact was linked with any more leaves no note. A store that cannot be written
    goes without notes; that is not an error.
    """
    from opsmith.store.files import write_atomic
    from opsmith.toolchain import default_probes

    if (versions := _linked_versions(linked, artifact)) is None:
        return
    note = {
        "state": _state(sources, with_gpu=with_gpu),
        "programs": _programs(),
        "compilers": default_probes().stamps(),
        # Only where -march=native makes it part of the key.
        "processor": artifact.manifest.inputs.get("processor"),
        "linked": versions,
        "source_key": source_key(artifact.manifest.inputs),
        "roots": {name: str(root) for name, root in roots.items()},
    }
    try:
        write_atomic(_note_path(store, request), json.dumps(note).encode(), scratch=store.layout.staging, durable=False)
    except OSError:
        return


def note_version(store: Store, request: Iterable[str]) -> tuple[int, int] | None:
    """Return what differs whenever the note of a request has been rewritten, or None if there is none."""
    try:
        status = _note_path(store, request).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _note_path(store: Store, request: Iterable[str]) -> Path:
    """Return where the note of a request is: named by the request, not the result."""
    return store.layout.base / "shortcuts" / f"{digest(*request)}.json"


def _state(sources: Iterable[Path], *, with_gpu: bool) -> dict[str, Any]:
    """Return everything but the compilers themselves that decides the plan, as JSON has it."""
    return {
        "format": _FORMAT_VERSION,
        "opsmith": [__version__, *_code()],
        "environment": {item.name: _env.read(item.name) for item in _env.VARIABLES if item.role != "none"},
        "torch": [torch.__file__, str(torch.__version__), torch.version.git_version],
        "gpus": _gpus() if with_gpu else [],
        "sources": {str(source): digest_file(source) for source in sorted(sources)},
    }


def _code() -> list[str]:
    """Return the version of every file of opsmith's that decides: developers of opsmith edit them."""
    # In texts: as paths, a hundred files take two milliseconds more.
    package = str(_PACKAGE)
    files = [
        os.path.join(base, name)  # noqa: PTH118
        for folder in _DECIDING
        for base, _, names in os.walk(os.path.join(package, folder))  # noqa: PTH118
        for name in sorted(names)
        if name.endswith(".py")
    ]
    states = [(file[len(package) :], os.stat(file)) for file in files]  # noqa: PTH116
    return sorted(f"{name} {status.st_size} {status.st_mtime_ns}" for name, status in states)


def _programs() -> list[str | None]:
    return [shutil.which(name) for name in _PROGRAMS]


def _gpus() -> list[str]:
    from opsmith.toolchain.gpus import find_gpus

    return [f"{gpu.name} {gpu.major}.{gpu.minor} {gpu.architecture}" for gpu in find_gpus()]


def _same_compilers(note: Mapping[str, Any]) -> bool:
    programs = _programs()
    if not any(programs[: len(_HOST_COMPILERS)]) and _env.read("CXX") is None:
        return True
    return bool(note["programs"] == programs and _stamps(note["compilers"]) == note["compilers"])


def _same_processor(note: Mapping[str, Any]) -> bool:
    if note["processor"] is None:
        return True
    from opsmith.toolchain.processor import processor_identity

    return bool(note["processor"] == digest(processor_identity()))


def _linked_versions(files: Iterable[Path], artifact: Artifact) -> dict[str, dict[str, Any]] | None:
    """Return what tells each linked file's version from the next, or None if the artefact has others.

    Libraries can be large, so a file whose stamps are as they were is not read. Not so where they are younger than the
    clocks of file systems are coarse, or not of the past: the file could be written again and keep them.
    """
    now_ns = time.time_ns()
    versions: dict[str, dict[str, Any]] = {}
    try:
        for file in files:
            status = file.stat()
            is_old = max(status.st_mtime_ns, status.st_ctime_ns) < now_ns - _COARSEST_CLOCK_NS
            versions[str(file)] = {"stamp": _stamp(status) if is_old else None, "digest": digest_file(file)}
    except OSError:
        return None
    made_from = {value for name, value in artifact.manifest.inputs.items() if name.startswith("linked ")}
    return versions if {version["digest"] for version in versions.values()} == made_from else None


def _same_linked(note: Mapping[str, Any], files: Iterable[Path]) -> bool:
    now = {str(file): file for file in files}
    known = note["linked"]
    return known.keys() == now.keys() and all(
        known[name]["stamp"] == _stamp(file.stat()) or known[name]["digest"] == digest_file(file)
        for name, file in now.items()
    )


def _stamp(status: os.stat_result) -> list[int]:
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _stamps(known: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return what tells each file's version from the next, as the probe cache has it."""
    return {
        path: [status.st_size, status.st_mtime_ns, status.st_ino] for path in known for status in (Path(path).stat(),)
    }
