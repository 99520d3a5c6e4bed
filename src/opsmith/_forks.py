"""Keeps a child of fork() usable whatever other threads were doing.

Data loaders fork while other threads run. In the child only the thread that forked goes on: a lock that another one held
stays locked there, and what another one was halfway through stays half done.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from weakref import WeakSet

__all__ = ["Lock", "hold_off_forks"]

# Whoever forks in the middle of an import may have what the thread waits for that holds forks off.
_PATIENCE_S = 10.0

_locks: WeakSet[Lock] = WeakSet()
_whole = threading.RLock()
_forking = threading.local()


class Lock:
    """A reentrant lock that the child of a fork finds free, unless it is the forking thread that holds it.

    What it guards has to be of use at any moment: in the child, another thread's work on it has stopped somewhere.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._owner = 0
        self._depth = 0
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()
        self._owner = threading.get_ident()
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner = 0
        self._lock.release()

    def _free_in_child(self) -> None:
        if self._owner != threading.get_ident():
            self._lock, self._owner, self._depth = threading.RLock(), 0, 0


@contextmanager
def hold_off_forks() -> Iterator[None]:
    """Let no thread fork during the block, for what must not be left half done in a child. It should take milliseconds."""
    with _whole:
        yield


def _before_fork() -> None:
    _forking.waited = _whole.acquire(timeout=_PATIENCE_S)


def _after_in_parent() -> None:
    if _forking.waited:
        _whole.release()


def _after_in_child() -> None:
    global _whole  # noqa: PLW0603
    if _forking.waited:
        _whole.release()
    else:
        _whole = threading.RLock()
    for lock in list(_locks):
        lock._free_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
