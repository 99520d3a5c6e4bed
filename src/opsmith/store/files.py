"""Writes files whole or not at all, and explains why one cannot be written."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opsmith.errors import StoreError
from opsmith.store.safety import make_folder
from opsmith.store.staging import reserve_name

__all__ = [
    "DISK_FULL",
    "explain_os_errors",
    "list_files",
    "list_folder",
    "refuse_full",
    "sync_folder",
    "sync_tree",
    "write_atomic",
]

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

_MOVE = "Set OPSMITH_CACHE_DIR to a folder that can be written."
_FREE = "Free some space there, or set OPSMITH_CACHE_DIR to a folder on another disk."

# errno -> what happened, what to do
_REMEDIES = {
    errno.ENOSPC: ("the disk is full", _FREE),
    errno.EDQUOT: ("the disk quota is used up", _FREE),
    errno.EROFS: ("the file system is read-only", _MOVE),
    errno.EACCES: ("permission denied", _MOVE),
    errno.EPERM: ("permission denied", _MOVE),
    errno.ENOTDIR: ("a file is in the place of a folder", _MOVE),
    errno.EEXIST: ("a file is in the place of a folder", _MOVE),
}

# No compiler gets by with less.
_FULL_BELOW_BYTES = 1 << 20

_REPLACE_ATTEMPTS = 3

# Only the owner writes, whatever the umask.
_FILE_MODE = 0o644


@contextmanager
def explain_os_errors(root: Path) -> Iterator[None]:
    """Turn an OSError of the block into a StoreError that names the store, the reason and the remedy."""
    try:
        yield
    except OSError as error:
        reason, remedy = _REMEDIES.get(error.errno or 0, (error.strerror or str(error), _MOVE))
        where = f" (at {error.filename})" if error.filename else ""
        raise StoreError(f"opsmith cannot write its store {root}: {reason}{where}. {remedy}") from error


def refuse_full(root: Path, error: Exception) -> None:
    """Raise StoreError if something failed because the store's disk is full, whatever its message."""
    try:
        disk = os.statvfs(root)
    except (OSError, AttributeError):
        return
    free_bytes = disk.f_bavail * disk.f_frsize
    if free_bytes < _FULL_BELOW_BYTES:
        left = f"{free_bytes // 1024} KB left"
        raise StoreError(
            f"a build failed, and the disk of opsmith's store {root} is full ({left}). {_FREE}\n{error}"
        ) from error


def write_atomic(path: Path, data: bytes, *, scratch: Path, durable: bool = True) -> None:
    """Put `data` at `path`: a reader sees the old file or the new one, never a part. Raises OSError.

    The bytes are collected in the folder `scratch` of the same file system, because what a killed process leaves there
    is swept. `durable` waits until the disk has them.
    """
    make_folder(scratch)
    part = reserve_name(scratch)
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE), "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        _replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def list_folder(folder: Path) -> list[Path]:
    """Return what is in a folder, by name; nothing if it is not there, or goes meanwhile."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def list_files(folder: Path, suffix: str, *, depth: int = 0) -> list[Path]:
    """Return the files of a suffix so many folders below a folder, by name; what goes meanwhile is left out."""
    if depth == 0:
        return [path for path in list_folder(folder) if path.name.endswith(suffix)]
    return [path for child in list_folder(folder) for path in list_files(child, suffix, depth=depth - 1)]


def _replace(part: Path, path: Path) -> None:
    for _ in range(_REPLACE_ATTEMPTS):
        make_folder(path.parent)
        try:
            part.replace(path)
        except FileNotFoundError:
            # Another process has just removed the empty folder.
            continue
        return
    part.replace(path)


def sync_folder(folder: Path) -> None:
    """Wait until the disk has a folder's list of names. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Wait until the disk has every file and folder below `folder`. Raises OSError."""
    for base, _, names in os.walk(folder, topdown=False):
        for name in names:
            path = Path(base, name)
            if path.is_symlink():
                continue
            with path.open("rb") as file:
                os.fsync(file.fileno())
        sync_folder(Path(base))
