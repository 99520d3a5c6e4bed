"""Acts in a thread of its own when a call does not come back: one of C++ that no signal of Python's interrupts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Watchdog", "watching"]

# A limit by signals has had its chance.
_GRACE_S = 5.0
_LOOK_S = 0.5


class Watchdog:
    """Watches one call after the other; `close` ends it. The call has to let other threads of Python run."""

    def __init__(self) -> None:
        self._armed: tuple[float, Callable[[], None]] | None = None
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="opsmith-judge-watchdog", daemon=True).start()

    @contextmanager
    def watching(self, seconds: float, act: Callable[[], None]) -> Iterator[None]:
        """Call `act` once if the block has not ended in so many seconds and a grace."""
        self._armed = (time.monotonic() + seconds + _GRACE_S, act)
        try:
            yield
        finally:
            self._armed = None

    def close(self) -> None:
        """Watch no more."""
        self._closed.set()

    def _watch(self) -> None:
        # Without a lock: a call of a task costs microseconds, and a look that comes in between finds nothing that is over.
        while not self._closed.wait(_LOOK_S):
            armed = self._armed
            if armed is not None and time.monotonic() > armed[0]:
                self._armed = None
                armed[1]()


@contextmanager
def watching(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    """Watch one block alone, as `Watchdog.watching` does."""
    watchdog = Watchdog()
    try:
        with watchdog.watching(seconds, act):
            yield
    finally:
        watchdog.close()
