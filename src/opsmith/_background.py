"""Starts work in the background that no caller should wait for.

The work runs in a separate process of low priority, which outlives this one. A lock file keeps two of them from doing
the same work, so nothing is started where the file system has no locks; failures are not errors here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

__all__ = ["do_quietly", "start_in_background"]

# The processes that are started here look there for opsmith.
_IMPORTED_FROM = str(Path(__file__).resolve().parent.parent)


def start_in_background(module: str, *arguments: str, lock: Path) -> None:
    """Run `python -m module arguments` on its own, unless a process holds the lock file already."""
    from filelock import Timeout

    from opsmith.store.lock import open_lock
    from opsmith.store.safety import make_folder

    try:
        make_folder(lock.parent)
        open_lock(lock).acquire(timeout=0).lock.release()
    except (Timeout, OSError):
        return
    try:
        _spawn([sys.executable, "-m", module, *arguments])
    except OSError:
        return


def _spawn(command: list[str]) -> None:
    """Start a process of which nothing is shown, and which does not end with the terminal. Raises OSError."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([_IMPORTED_FROM, os.environ.get("PYTHONPATH", "")])}
    silence = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in range(3)]
    # Not subprocess.Popen, which warns if the process is not waited for.
    try:
        os.posix_spawn(command[0], command, environment, file_actions=silence, setsid=True)
    except NotImplementedError:
        # A Python that was built for a glibc older than 2.26. A group of its own is spared by Ctrl-C too.
        os.posix_spawn(command[0], command, environment, file_actions=silence, setpgroup=0)


def do_quietly(work: Callable[[], object], *, lock: Path) -> None:
    """What such a process does: the work, under the lock, unless another is at it."""
    from filelock import Timeout

    from opsmith.errors import OpsmithError
    from opsmith.store.lock import open_lock

    os.nice(10)
    try:
        with open_lock(lock).acquire(timeout=0):
            work()
    except (Timeout, OSError, OpsmithError):
        return
