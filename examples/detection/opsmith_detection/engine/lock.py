"""Keeps a second run out of a folder, where it would mix its log and its checkpoints with those of the first one."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from opsmith_detection.config import ConfigError

__all__ = ["hold_folder"]

# The workers of a loader are forks and may have part in a lock. A run that was killed leaves them: they look every 5 s
# whether the process that forked them lives.
_PATIENCE_S = 10.0

# What file systems without locks answer.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Make a folder, and hold it within the context.

    The lock is the operating system's, which ends with its process. A file system without locks has none.

    Raises:
        ConfigError: another run holds the folder, or it cannot be written to.
    """
    lock = FileLock(folder / ".lock", fallback_to_soft=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=_PATIENCE_S)
    except Timeout:
        raise ConfigError(f"another run writes to {folder}: wait for its end, or set output=FOLDER") from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise ConfigError(f"{folder} cannot be written to: {error.strerror or error}. Set output=FOLDER") from None
    try:
        yield
    finally:
        lock.release()
