"""Starts work in the background that no caller should wait for.

The work runs in a separate process of low priority, which outlives this one. A lock file keeps two of them from doing
the same work; their failures are not errors here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

__all__ = ["do_quietly", "start_in_background"]

# The processes that are started here look there for opsmith.
_IMPORTED_FROM = str(Path(__file__).resolve().parent.parent)

# Only the owner writes, whatever the umask.
_LOCK_MODE = 0o644


def start_in_background(module: str, *arguments: str, lock: Path) -> None:
    """Run `python -m module arguments` on its own, unless a process holds the lock file already."""
    from filelock import FileLock, Timeout

    from opsmith.store.safety import make_folder

    try:
        make_folder(lock.parent)
        FileLock(lock, mode=_LOCK_MODE).acquire(timeout=0).lock.release()
    except (Timeout, OSError):
        return
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([_IMPORTED_FROM, os.environ.get("PYTHONPATH", "")])}
    silence = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in range(3)]
    command = [sys.executable, "-m", module, *arguments]
    try:
        # Not subprocess.Popen, which warns if the process is not waited for.
        os.posix_spawn(sys.executable, command, environment, file_actions=silence, setsid=True)
    except OSError:
        return


def do_quietly(work: Callable[[], object], *, lock: Path) -> None:
    """What such a process does: the work, under the lock, unless another is at it."""
    from filelock import FileLock, Timeout

    from opsmith.errors import OpsmithError

    os.nice(10)
    try:
        with FileLock(lock, timeout=0, mode=_LOCK_MODE):
            work()
    except (Timeout, OSError, OpsmithError):
        return
