"""Keeps the bridge, the C++ library behind operators' gradients and fast calls, in the store, and builds it.

It is built against torch's whole C++ API, once for each torch and Python, into the store. If it is missing, a
background process builds it, and until then, or if it cannot be built, Python does the same work.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from opsmith import _env
from opsmith._background import do_quietly, start_in_background
from opsmith.errors import LoadError, OpsmithError, StoreError
from opsmith.store.by_key import get_artifact
from opsmith.store.keys import digest, digest_file
from opsmith.store.locate import Layout, default_root
from opsmith.store.reading import parse_json, read_regular

if TYPE_CHECKING:
    from opsmith.build.watcher import Watcher

__all__ = ["build_bridge", "describe_bridge", "load_bridge"]

_NAME = "opsmith_bridge"
_FOLDER = Path(__file__).resolve().parent.parent / "bridge"


def describe_bridge() -> dict[str, str | None]:
    """Return the bridge's `library` for this torch where it is there, and the `failure` of its last build, if it failed."""
    layout = Layout(default_root())
    note = _read_note(layout)
    try:
        artifact = get_artifact(layout, str(note.get("artifact", "")))
    except StoreError:
        artifact = None
    return {"library": None if artifact is None else str(artifact.library), "failure": note.get("failure")}


def build_bridge(watcher: Watcher | None = None) -> Path:
    """Return the bridge's library, built now where the store has none.

    Raises CompileError, ToolchainError or StoreError.
    """
    from opsmith.build.artifact import obtain_artifact
    from opsmith.build.existing import assemble_sources, file_sources, prepare_existing
    from opsmith.store import Store
    from opsmith.toolchain import find_host_compiler, find_python_headers

    store = Store(default_root())
    suffix = find_python_headers().extension_suffix
    sources = file_sources(sorted(_FOLDER.glob("*.cpp")))
    # What takes the time is PyTorch's headers: -O1 gives calls that are as fast, and gcc need not tidy up its memory,
    # which stays below a gigabyte for each of the two files.
    flags = ["-O1", *(["--param", "ggc-min-heapsize=1000000"] if find_host_compiler().kind == "gcc" else [])]
    extension = assemble_sources(_NAME, sources, library=f"{_NAME}{suffix}", cxx_flags=flags)
    prepared = prepare_existing(extension)
    try:
        artifact = obtain_artifact(prepared.plan, prepared.toolchain, prepared.target, store, watcher=watcher)
    except OpsmithError as error:
        _write_note(store.layout, {"failure": str(error), "compilers": _compilers()})
        raise
    _write_note(store.layout, {"artifact": artifact.key})
    return artifact.library


def load_bridge(mode: str) -> Any | None:
    """Return the bridge's module, or None; `mode` and warnings as for `find_bridge`."""
    layout = Layout(default_root())
    note = _read_note(layout)
    try:
        artifact = get_artifact(layout, str(note.get("artifact", "")))
    except StoreError as error:
        _warn(error)
        return None
    if artifact is not None:
        return _load(artifact.library)
    if mode == "wait":
        try:
            return _load(build_bridge())
        except OpsmithError as error:
            _warn(error)
            return None
    if note.get("compilers") != _compilers():
        start_in_background(__name__, lock=_lock_file(layout))
    return None


def _load(library: Path) -> Any | None:
    from opsmith.runtime.existing import import_library

    try:
        return import_library(_NAME, library)
    except LoadError as error:
        _warn(error)
        return None


def _warn(error: OpsmithError) -> None:
    import warnings

    warnings.warn(f"opsmith runs without its bridge, more slowly: {error}", RuntimeWarning, stacklevel=2)


def _note_file(layout: Layout) -> Path:
    """Return the file that says where the bridge of this torch, this Python and these sources is."""
    sources = [digest_file(file) for file in sorted(_FOLDER.iterdir()) if file.suffix in (".cpp", ".h")]
    built_for = (
        torch.__file__,
        str(torch.__version__),
        str(torch.version.git_version),
        sys.version,
        os.uname().machine,
    )
    name = digest(*built_for, *sources)
    return layout.base / "bridge" / f"{name}.json"


def _lock_file(layout: Layout) -> Path:
    return _note_file(layout).with_suffix(".lock")


def _read_note(layout: Layout) -> dict[str, Any]:
    try:
        note = parse_json(read_regular(_note_file(layout)))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def _write_note(layout: Layout, note: dict[str, Any]) -> None:
    from opsmith.store.files import write_atomic

    file = _note_file(layout)
    try:
        write_atomic(file, json.dumps(note).encode(), scratch=layout.staging, durable=False)
    except OSError:
        return


def _compilers() -> list[str | None]:
    """Return which C++ compilers are found, so that a failed build is tried again where that changes."""
    return [_env.read("CXX"), *map(shutil.which, ("c++", "g++", "clang++"))]


if __name__ == "__main__":
    do_quietly(build_bridge, lock=_lock_file(Layout(default_root())))
