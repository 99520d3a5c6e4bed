"""How is something stopped that takes too long? By a signal, between two steps of Python; a compiler it runs dies too."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Deadline", "OutOfTime", "time_limit"]

# After the first signal more follow: one that arrives in a destructor or in a callback from C is lost.
_AGAIN_S = 1.0


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
def time_limit(seconds: float) -> Iterator[None]:
    """Raise OutOfTime in what is done inside when so many seconds are over.

    Nothing is limited outside of the main thread and on systems without such signals, and a call of a C function ends
    first. A limit inside another one is the shorter of the two.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
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
