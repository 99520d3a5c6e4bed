"""Lets one process build while the others wait for it.

The lock saves double work and nothing else: publication is safe without it. It is the operating system's (flock), so
it dies with its process, and no stale lock can be left behind. Where the file system has no such locks, there is none.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from opsmith.store.files import explain_os_errors
from opsmith.store.safety import make_folder

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = ["hold_lock", "open_lock"]

_REPORT_EVERY_S = 0.5

# How long a waiting process sleeps: a fortieth of what it has waited, so that the end is noticed in good time and many
# that wait leave the processor to the one that builds.
_SLEEP_PART = 1 / 40
_SLEEP_MIN_S = 0.02
_SLEEP_MAX_S = 0.25

# Only the owner writes, whatever the umask.
_LOCK_MODE = 0o644

# What file systems without locks answer. The build then goes on without one.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})


def open_lock(path: Path) -> BaseFileLock:
    """Return the lock of a file, which is not held yet; taking it raises OSError where the file system has no locks."""
    from filelock import FileLock

    # filelock would else take the existence of a file for a lock there, which stays if its process is killed.
    return FileLock(path, mode=_LOCK_MODE, fallback_to_soft=False)


@contextmanager
def hold_lock(
    path: Path,
    *,
    root: Path,
    on_wait: Callable[[float], None] | None = None,
    is_settled: Callable[[], bool] | None = None,
) -> Iterator[bool]:
    """Hold the lock of a file of the store at `root` during the block, and say whether it is held.

    While another process or thread holds it, `on_wait` gets about every half second how many seconds this has
    waited, the first time at once. `is_settled` is asked more often; where it answers that the other has done what the
    lock is wanted for, or where the file system has no locks, the block runs without. Raises StoreError if the file
    cannot be made.
    """
    with explain_os_errors(root):
        make_folder(path.parent)
    lock = open_lock(path)
    is_held = _acquire(lock, root, on_wait or (lambda _: None), is_settled or (lambda: False))
    try:
        yield is_held
    finally:
        if is_held:
            lock.release()


def _acquire(lock: BaseFileLock, root: Path, on_wait: Callable[[float], None], is_settled: Callable[[], bool]) -> bool:
    from filelock import Timeout

    start_s = time.monotonic()
    report_s = 0.0
    while True:
        try:
            lock.acquire(blocking=False)
        except Timeout:
            waited_s = time.monotonic() - start_s
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return False
            with explain_os_errors(root):
                raise
        else:
            return True
        if is_settled():
            return False
        if waited_s >= report_s:
            on_wait(waited_s)
            report_s = waited_s + _REPORT_EVERY_S
        time.sleep(min(max(waited_s * _SLEEP_PART, _SLEEP_MIN_S), _SLEEP_MAX_S))
