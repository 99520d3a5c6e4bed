"""How does one process build while the others wait for it?

The lock saves double work and nothing else: publication is safe without it. It is the operating system's (flock), so
it dies with its process, and no stale lock can be left behind.
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

__all__ = ["hold_lock"]

_POLL_S = 0.02
_REPORT_EVERY_S = 0.5

# What file systems without locks answer. The build then goes on without one.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})


@contextmanager
def hold_lock(path: Path, *, root: Path, on_wait: Callable[[float], None] | None = None) -> Iterator[None]:
    """Hold the lock of a file of the store at `root` during the block.

    While another process or thread holds it, `on_wait` is told about every half second how many seconds this has
    waited, the first time at once. Raises StoreError where the file cannot be made.
    """
    from filelock import FileLock

    with explain_os_errors(root):
        make_folder(path.parent)
    lock = FileLock(path, mode=0o644)
    is_held = _acquire(lock, root, on_wait)
    try:
        yield
    finally:
        if is_held:
            lock.release()


def _acquire(lock: BaseFileLock, root: Path, on_wait: Callable[[float], None] | None) -> bool:
    from filelock import Timeout

    start_s = time.monotonic()
    patience_s = 0.0
    while True:
        try:
            lock.acquire(timeout=patience_s, poll_interval=_POLL_S)
        except Timeout:
            if on_wait:
                on_wait(time.monotonic() - start_s)
            patience_s = _REPORT_EVERY_S
        except NotImplementedError:
            return False
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return False
            with explain_os_errors(root):
                raise
        else:
            return True
