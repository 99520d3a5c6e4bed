"""Checks that a stored artefact is, byte for byte, what its manifest says, and that only its owner can change it."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from opsmith.store import keys
from opsmith.store.manifest import MANIFEST_NAME, Manifest
from opsmith.store.reading import read_regular
from opsmith.store.safety import is_private

__all__ = [
    "Artifact",
    "await_artifact",
    "digest_beside",
    "find_damage",
    "read_artifact",
    "read_manifest",
    "retry_stale",
]

_T = TypeVar("_T")

# NFS answers ESTALE where a file was replaced under an open handle; opening it by name again finds the new one.
_STALE_ATTEMPTS = 3

# An NFS client may go on saying for a while that a folder is not there which it has asked for before. Reading the folder
# above makes it look again; where that is not enough, waiting is.
_AWAIT_S = (0.0, 0.01, 0.03, 0.06, 0.1, 0.2)

# What lies next to a binary: notes of a few KB, or tables of a few MB. A hole of 40 GB would be read for minutes.
_MOST_BESIDE_BYTES = 1 << 30


class Artifact(NamedTuple):
    """One stored artefact: its key, its folder, and its manifest."""

    key: str
    folder: Path
    manifest: Manifest

    @property
    def library(self) -> Path:
        """Path of the binary."""
        return self.folder / self.manifest.library


def read_manifest(folder: Path) -> Manifest | None:
    """Return an artefact's manifest, or None if it cannot be read."""
    try:
        return Manifest.from_json(retry_stale(lambda: read_regular(folder / MANIFEST_NAME)))
    except OSError:
        return None


def read_artifact(folder: Path, *, at_sight: bool = False) -> Artifact | None:
    """Return the artefact of a folder, or None if anything about it is not as it should be.

    At sight, the digests are left for later.
    """
    manifest = read_manifest(folder)
    find = _find_visible_damage if at_sight else find_damage
    if manifest is None or find(folder, manifest) is not None:
        return None
    return Artifact(folder.name, folder, manifest)


def await_artifact(folder: Path) -> Artifact | None:
    """Return the artefact of a folder that another machine has published a moment ago, and that may not be seen yet."""
    for wait_s in _AWAIT_S:
        time.sleep(wait_s)
        look_again(folder.parent)
        if folder.is_dir():
            return read_artifact(folder)
    return None


def find_damage(folder: Path, manifest: Manifest) -> str | None:
    """Return what is wrong with an artefact's files, or None if all are as the manifest says."""
    if (damage := _find_visible_damage(folder, manifest)) is not None:
        return damage
    try:
        for name, promised in {manifest.library: manifest.sha256, **manifest.files}.items():
            most = manifest.size_bytes if name == manifest.library else _MOST_BESIDE_BYTES
            if retry_stale(partial(keys.digest_file, folder / name, most=most)) != promised:
                return f"{name} has been altered"
    except OSError as error:
        return _unreadable(error, folder)
    return None


def _find_visible_damage(folder: Path, manifest: Manifest) -> str | None:
    """Return what is wrong with an artefact's files as far as it can be seen without reading them."""
    library = folder / manifest.library
    try:
        size = library.stat().st_size
    except OSError as error:
        return _unreadable(error, library)
    if size != manifest.size_bytes:
        return f"{manifest.library} has {size} bytes instead of {manifest.size_bytes}"
    if not all(map(is_private, (folder.parent, folder, library))):
        return f"others can write to {library}"
    return None


def _unreadable(error: OSError, path: Path) -> str:
    return f"{error.filename or path} cannot be read: {error.strerror or error}"


def digest_beside(folder: Path, library: str) -> dict[str, str]:
    """Return the digests of what lies next to a binary and its manifest. Raises OSError."""
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    beside = {name: path for name, path in paths.items() if name not in (library, MANIFEST_NAME)}
    return {name: keys.digest_file(path, most=_MOST_BESIDE_BYTES) for name, path in beside.items()}


def look_again(folder: Path) -> None:
    """Read a folder and the one above it, so that an NFS client sees what other machines have put there."""
    for parent in (folder.parent, folder):
        with suppress(OSError), os.scandir(parent) as entries:
            next(entries, None)


def retry_stale(action: Callable[[], _T]) -> _T:
    """Do something with a file by its name, again where NFS says that the handle is stale. Raises OSError."""
    for _ in range(_STALE_ATTEMPTS - 1):
        try:
            return action()
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
    return action()
