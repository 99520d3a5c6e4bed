"""Stops a candidate's processes for a while.

While they stand still nothing is computed there: inputs can be written that nobody has seen when the clock starts, results
are there at the end of a call or they are not, and other work is not disturbed.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from opsmith.judging.inside.system_calls import call
from opsmith.judging.processes import Spent, Use, family, use_of

__all__ = ["Standstill"]

# A thread in the middle of a system call stops when that has ended.
_PATIENCE_S = 2.0
_STOPPED = frozenset("TtZX")
# What a process may be seen to have used of processors between, which was counted late.
_COUNTED_LATE_S = 1e-4
# For so long those that are told to stop may compute until they have.
_STOPS_S = 3e-3
# In so many of the last standstills more may have been used, or a thread may have been given a processor: it may lose it in
# the moment in which it stops. These are five rounds of timing, the least there are, and a median is of more than two.
_LAST, _MOST_RAN = 10, 2
# Before others are looked for, which takes a while where there are many.
_LOOKS = 20
# One that waits for a child it shares memory with (vfork) does so until the child goes on.
_WAITING, _WAITS_S = frozenset("D"), 0.1


class Standstill:
    """A process and its descendants, which can be stopped and go on.

    `used_s` is what they used of processors from one standstill to the last one, without those that ended meanwhile.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._members: list[int] = [pid]
        self._used: dict[int, Use] = {}
        self._ran: deque[bool] = deque(maxlen=_LAST)
        self.is_on, self.used_s = False, 0.0

    def begin(self) -> bool:
        """Stop all of them, and return whether they have stopped."""
        self.is_on = True
        begun_s = time.monotonic()
        told, stopped = Spent(), Spent()
        # Those that are known at once: looking for others takes as long as a short call.
        for one in self._members:
            _signal(one, signal.SIGSTOP)
            told.count(one)
        running: Sequence[int] = self._members
        is_whole = False
        while True:
            _stop_all(running, told, stopped)
            listed, self._members = set(self._members), family(self._pid)
            for one in self._members:
                told.count(one)
            taken_s = time.monotonic() - begun_s
            still = _STOPPED if taken_s < _WAITS_S else _STOPPED | _WAITING
            running = [one for one in self._members if not _is_in(one, still)]
            for one in set(self._members).difference(running):
                stopped.count(one)
            # One that was running when they were listed may have started another since.
            if not running and is_whole and listed.issuperset(self._members):
                before, self._used = self._used, self._settled(begun_s + _PATIENCE_S)
                self.used_s = _grown_s(before, self._used)
                self._ran.append(told.look() > _STOPS_S or stopped.look() > _COUNTED_LATE_S)
                return True
            is_whole = not running
            if taken_s > _PATIENCE_S:
                return False

    def _settled(self, until_s: float) -> dict[int, Use]:
        """Return what they have used of processors, when that does not change any more.

        A thread counts as stopped a moment before its processor is another's, and a virtual one may be taken from the
        machine in that moment, for milliseconds.
        """
        used = _used(self._members)
        while (now := _used(self._members)) != used and time.monotonic() < until_s:
            used = now
            time.sleep(0)
        return now

    def has_held(self) -> bool:
        """Whether nothing has run since `begin`: a timer, for one, can send the signal that lets a process go on.

        Each process is looked at by itself: one that ends takes what it has used out of a sum, in which another's work
        would be hidden. What is stopped neither ends nor starts others.
        """
        if not self.is_on:
            return True
        found = family(self._pid)
        now = _used(found)
        if not set(self._members).issuperset(found) or not _are_the_same(self._used, now):
            return False
        if any(_has_run(before, now[one]) for one, before in self._used.items()):
            self._ran[-1] = True
        return _grown_s(self._used, now) < _COUNTED_LATE_S and sum(self._ran) <= _MOST_RAN

    def end(self) -> None:
        """Let all of them go on."""
        if self.is_on:
            self.is_on = False
            for one in self._members:
                _signal(one, signal.SIGCONT)


def _used(pids: Iterable[int]) -> dict[int, Use]:
    """Return what each of some processes has used; those that have ended can do nothing any more, and are left out."""
    return {pid: found for pid in pids if (found := use_of(pid)) is not None}


def _grown_s(before: Mapping[int, Use], now: Mapping[int, Use]) -> float:
    """Return the seconds that processes have used since, all of those that are new."""
    return sum(one.seconds - before[pid].seconds if pid in before else one.seconds for pid, one in now.items())


def _are_the_same(before: Mapping[int, Use], now: Mapping[int, Use]) -> bool:
    """Whether processes are there still, and are not others by the same numbers."""
    return all(pid in now and now[pid].begun == one.begun for pid, one in before.items())


def _has_run(before: Use, now: Use) -> bool:
    """Whether a thread has left a processor, which it had to be given first; one may start a process that ends unseen."""
    return any(now.turns.get(thread) != turns for thread, turns in before.turns.items())


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _stop_all(pids: Sequence[int], told: Spent, stopped: Spent) -> None:
    """Have processes stop, and count from when each is first seen to have done so.

    It is looked at each at once: one that a timer wakes again would work until all others have been looked at.
    """
    for _ in range(_LOOKS):
        for one in pids:
            _stop_threads(one)
            told.look()
            if _is_in(one, _STOPPED):
                stopped.count(one)
            stopped.look()
        pids = [one for one in pids if one not in stopped]


def _stop_threads(pid: int) -> None:
    """Have each thread of a process stop: a signal to the process waits for one that sleeps to get a processor.

    Meanwhile others of it would go on, which on a busy machine takes milliseconds.
    """
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 -- in the time that others go on
            with suppress(ProcessLookupError):
                call("tgkill", pid, int(task), int(signal.SIGSTOP))


def _is_in(pid: int, states: Collection[str]) -> bool:
    """Whether each of a process's threads is in one of some states."""
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError, IndexError):
                # The name, in parentheses, may have anything in it; behind it is the state.
                if (task / "stat").read_text().rpartition(")")[2].split()[0] not in states:
                    return False
    return True
