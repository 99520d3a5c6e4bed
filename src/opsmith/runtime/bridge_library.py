"""Finds the bridge, the C++ library behind operators' gradients and fast calls: prebuilt, or in the store.

It is made against torch's whole C++ API, once for each torch. If the distribution opsmith-bridge has none for this one and
the store neither, a background process builds it, and until then, or if it cannot be built, Python does the same work.
A build that has failed is tried again where compilers change, and after a while.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from opsmith import _env
from opsmith._background import do_quietly, start_in_background
from opsmith.errors import CompileError, LoadError, OpsmithError, StoreError, ToolchainError
from opsmith.runtime.bridge_build import NAME, compile_bridge, is_free_threaded, sources_digest
from opsmith.runtime.bridge_wheel import find_prebuilt
from opsmith.store.by_key import get_artifact
from opsmith.store.keys import digest
from opsmith.store.locate import Layout, default_root
from opsmith.store.reading import parse_json, read_regular

if TYPE_CHECKING:
    from opsmith.build.watcher import Watcher

__all__ = ["build_bridge", "describe_bridge", "load_bridge"]

# A failed build in the background is not repeated for a day; for some minutes where its cause may pass by itself, so that
# each of many processes does not fill the memory anew.
_FAILS_AGAIN_S = 24 * 60 * 60
_MAY_PASS_S = 10 * 60

# The catalogue's failures of the machine that pass, and compilers that were ended from outside.
_PASSING = frozenset({"compiler-killed", "out-of-memory", "disk-full", "open-files", "text-file-busy", "cannot-write"})
_ENDED = re.compile(r"(?:Killed|Terminated|Hangup|Interrupt) signal terminated|signal (?:9|15|1|2)\b")


def describe_bridge() -> dict[str, str | None]:
    """Return the bridge's `library` for this torch where it is there, the `failure` of its last build, and its `misfit`.

    The misfit is why opsmith-bridge, where it is installed, has none for this torch.
    """
    prebuilt = find_prebuilt()
    if prebuilt.library is not None:
        return {"library": str(prebuilt.library), "failure": None, "misfit": None}
    layout = Layout(default_root())
    note = _read_note(layout)
    try:
        artifact = get_artifact(layout, str(note.get("artifact", "")))
    except StoreError:
        artifact = None
    library = None if artifact is None else str(artifact.library)
    return {"library": library, "failure": note.get("failure"), "misfit": prebuilt.problem or None}


def build_bridge(watcher: Watcher | None = None) -> Path:
    """Return the bridge's library, built now where there is neither a prebuilt one nor one in the store.

    Raises CompileError, ToolchainError or StoreError.
    """
    from opsmith.store import Store
    from opsmith.toolchain import find_torch

    find_torch()  # refuses one that is too old, which is not a failure of this bridge
    if (prebuilt := find_prebuilt().library) is not None:
        return prebuilt
    store = Store(default_root())
    try:
        artifact = compile_bridge(store, watcher)
    except OpsmithError as error:
        again_s = time.time() + (_FAILS_AGAIN_S if _fails_again(error) else _MAY_PASS_S)
        _write_note(store.layout, {"failure": str(error), "compilers": _compilers(), "again_s": again_s})
        raise
    _write_note(store.layout, {"artifact": artifact.key})
    return artifact.library


def load_bridge(mode: str) -> Any | None:
    """Return the bridge's module, or None; `mode` and warnings as for `find_bridge`."""
    prebuilt = find_prebuilt()
    if prebuilt.library is not None:
        return _load(prebuilt.library)
    layout = Layout(default_root())
    note = _read_note(layout)
    try:
        artifact = get_artifact(layout, str(note.get("artifact", "")))
    except StoreError as error:
        _warn(str(error))
        return None
    if artifact is not None:
        return _load(artifact.library)
    if mode == "wait":
        try:
            return _load(build_bridge())
        except OpsmithError as error:
            _warn(str(error))
            return None
    if prebuilt.problem and not any(_compilers()):
        _warn(f"{prebuilt.problem}. There is no C++ compiler to build one here either")
    elif note.get("compilers") != _compilers() or _is_over(note):
        start_in_background(__name__, lock=_lock_file(layout))
    return None


def _fails_again(error: OpsmithError) -> bool:
    """Tell whether a build would fail in the same way now: not if a disk was full, or a compiler was killed."""
    from opsmith.catalogue import explain

    if isinstance(error, ToolchainError):
        return True
    passes = _ENDED.search(str(error)) or any(explanation.id in _PASSING for explanation in explain(str(error)))
    return isinstance(error, CompileError) and not passes


def _is_over(note: dict[str, Any]) -> bool:
    """Tell whether it is time to build again; a clock that was set back does not delay that."""
    again_s = note.get("again_s")
    return not (isinstance(again_s, (int, float)) and 0 < again_s - time.time() <= _FAILS_AGAIN_S)


def _load(library: Path) -> Any | None:
    from opsmith.runtime.existing import import_library

    try:
        return import_library(NAME, library)
    except LoadError as error:
        _warn(str(error))
        return None


def _warn(problem: str) -> None:
    import warnings

    warnings.warn(f"opsmith runs without its bridge, more slowly: {problem}", RuntimeWarning, stacklevel=2)


def _note_file(layout: Layout) -> Path:
    """Return the file that says where the bridge of this torch and these sources is."""
    name = digest(
        torch.__file__,
        str(torch.__version__),
        str(torch.version.git_version),
        "free-threaded" if is_free_threaded() else "limited API",
        os.uname().machine,
        sources_digest(),
    )
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
