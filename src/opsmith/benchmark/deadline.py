"""Stops what takes too long, by a signal between two steps of Python; a compiler that it runs is killed too."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

__all__ = ["Deadline", "OutOfTime", "time_limit"]

# After the first signal more follow: one that arrives in a destructor or in a callback from C is lost.
_AGAIN_S = 1.0
_SOON_S = 1e-3


class OutOfTime(BaseException):
    """The time is over. No Exception, so that nothing on the way takes it for a failure that it can deal with."""


class Deadline:
    """A moment by the clock: `left_s` seconds from now."""

    def __init__(self, seconds: float) -> None:
        self._end = time.perf_counter() + seconds

    @property
    def left_s(self) -> float:
        """How many seconds are left; 0 when it is over."""
        return max(0.0, self._end - time.perf_counter())


@contextmanager
def time_limit(seconds: float, *, ends_programs: bool = True) -> Iterator[None]:
    """Raise OutOfTime in what is done inside when so many seconds are over.

    Programs that were started inside end too, and those that they have started, but for Python's own processes; to look for
    them takes milliseconds, which `ends_programs=False` saves. Nothing is limited outside of the main thread and on systems
    without such signals, and a call of a C function ends first. A limit inside another one is the shorter of the two.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    there = set(_programs()) if ends_programs else set()

    def stop(number: int, frame: FrameType | None) -> None:
        # subprocess kills the compiler's driver alone, and what that has started would go on beside the next thing timed.
        for process in set(_programs()) - there if ends_programs else ():
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        if _is_in_gc_callback(frame):
            signal.setitimer(signal.ITIMER_REAL, _SOON_S, _AGAIN_S)  # Python drops what is raised there, with a warning
            return
        raise OutOfTime

    outer_s, _ = signal.getitimer(signal.ITIMER_REAL)
    if 0 < outer_s <= seconds:
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    started = time.perf_counter()
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3), _AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        if outer_s > 0:
            left = outer_s - (time.perf_counter() - started)
            signal.setitimer(signal.ITIMER_REAL, max(left, 1e-3), _AGAIN_S)


def _is_in_gc_callback(frame: FrameType | None) -> bool:
    callbacks = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None:
        if frame.f_code in callbacks:
            return True
        frame = frame.f_back
    return False


def _programs() -> Iterator[int]:
    """Yield the processes that this one has started and those that they have, but for Python's; none where /proc is not."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            # The name, in parentheses, may have anything in it; behind it are the state and the parent.
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    python, found, added = Path(sys.executable).resolve(), {os.getpid()}, {os.getpid()}
    while added:
        added = {process for process, parent in parents.items() if parent in added} - found
        found |= added
    for process in found - {os.getpid()}:
        with suppress(OSError):
            if Path(f"/proc/{process}/exe").resolve() != python:
                yield process
