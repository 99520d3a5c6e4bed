"""How does a file reach the disk whole or not at all, and what is said when it cannot?"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opsmith.errors import StoreError
from opsmith.store.staging import reserve_name

__all__ = ["explain_os_errors", "sync_folder", "sync_tree", "write_atomic"]

_MOVE = "Set OPSMITH_CACHE_DIR to a folder that can be written."
_FREE = "Free some space there, or set OPSMITH_CACHE_DIR to a folder on another disk."

# errno -> what happened, what to do
_REMEDIES = {
    errno.ENOSPC: ("the disk is full", _FREE),
    errno.EDQUOT: ("the disk quota is used up", _FREE),
    errno.EROFS: ("the file system is read-only", _MOVE),
    errno.EACCES: ("permission denied", _MOVE),
    errno.EPERM: ("permission denied", _MOVE),
    errno.ENOTDIR: ("a file stands where a folder is needed", _MOVE),
    errno.EEXIST: ("a file stands where a folder is needed", _MOVE),
}


@contextmanager
def explain_os_errors(root: Path) -> Iterator[None]:
    """Turn an OSError of the block into a StoreError that names the store, the reason and the remedy."""
    try:
        yield
    except OSError as error:
        reason, remedy = _REMEDIES.get(error.errno or 0, (error.strerror or str(error), _MOVE))
        place = f" (at {error.filename})" if error.filename else ""
        raise StoreError(f"opsmith cannot write its store {root}: {reason}{place}. {remedy}") from error


def write_atomic(path: Path, data: bytes, *, scratch: Path, durable: bool = True) -> None:
    """Put `data` at `path`: a reader sees the old file or the new one, never a part. Raises OSError.

    The bytes are collected in the folder `scratch` of the same file system, because what a killed process leaves there
    is swept. `durable` waits until the disk has them.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = reserve_name(scratch)
    try:
        with part.open("xb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the disk has a folder's list of names. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Wait until the disk has every file and folder below `folder`. Raises OSError."""
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            path = Path(place, name)
            if path.is_symlink():
                continue
            with path.open("rb") as file:
                os.fsync(file.fileno())
        sync_folder(Path(place))
