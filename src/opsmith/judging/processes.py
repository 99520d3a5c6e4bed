"""Reads from the kernel what a process and its descendants take: memory, threads, time of processors."""

from __future__ import annotations

import os
import re
import resource
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Meter", "Spent", "Use", "begun_at", "cpu_s", "family", "is_running", "memory_bytes", "use_of"]

_PAGE = resource.getpagesize()
_SCHEDULER_CLOCK = 2
_ENDED = frozenset((b"Z", b"X"))
_STATE = re.compile(rb"^State:\s*(\S)", re.MULTILINE)
_SWITCHES = re.compile(rb"voluntary_ctxt_switches:\s*(\d+)")


@dataclass(frozen=True)
class Use:
    """What a process has used of processors: seconds, and how often each thread that can be stopped has left one.

    `begun` is when the process began: with its number it says which process it is.
    """

    begun: int
    seconds: float
    turns: Mapping[int, int]


def family(pid: int) -> list[int]:
    """Return a process and its descendants, ancestors first."""
    found, at = [pid], 0
    while at < len(found):
        tasks = f"/proc/{found[at]}/task"
        with suppress(OSError):
            # A process of PyTorch's has more than a hundred threads where there are many processors, and this is asked ten
            # times a second: without objects for paths and files it takes a third of the time.
            for task in os.listdir(tasks):  # noqa: PTH208
                with suppress(OSError):
                    found += map(int, _content(f"{tasks}/{task}/children").split())
        at += 1
    return found


def _content(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY)
    try:
        parts = []
        while part := os.read(file, 4096):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)


def memory_bytes(pid: int) -> int:
    """Return the bytes that a process has in memory, shared ones included; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def begun_at(pid: int) -> int | None:
    """Return when a process began, in ticks: with it a number says which process is meant. None if it is gone."""
    with suppress(OSError, IndexError, ValueError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return None


def is_running(pid: int) -> bool:
    """Whether one of a process's threads uses a processor, or waits for one."""
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError, IndexError):
                # The name, in parentheses, may have anything in it; behind it is the state.
                if (task / "stat").read_text().rpartition(")")[2].split()[0] == "R":
                    return True
    return False


def use_of(pid: int) -> Use | None:
    """Return what a process has used of processors; None if it has ended, whether or not its parent knows."""
    turns, is_there, tasks = {}, False, f"/proc/{pid}/task"
    with suppress(OSError, IndexError, ValueError):
        begun = int(_content(f"/proc/{pid}/stat").rpartition(b")")[2].split()[19])
        for task in os.listdir(tasks):  # noqa: PTH208 -- as above
            with suppress(OSError):
                status = _content(f"{tasks}/{task}/status")
                state = _STATE.search(status)
                is_there |= state is None or state[1] not in _ENDED
                # A thread in the middle of a system call that nothing interrupts (D) stops only when that has ended.
                if state is not None and state[1] != b"D":
                    turns[int(task)] = sum(map(int, _SWITCHES.findall(status)))
        return Use(begun, cpu_s([pid]), turns) if is_there else None
    return None


def cpu_s(pids: list[int]) -> float:
    """Return the seconds of processors that processes have used, as the kernel counts them for each."""
    total = 0.0
    for pid in pids:
        with suppress(OSError):
            total += time.clock_gettime((~pid << 3) | _SCHEDULER_CLOCK)
    return total


class Meter:
    """Sums what a process and its descendants use of processors.

    What each was last seen to have used stays in the sum when it ends: that would hide the work of another.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seen_s: dict[tuple[int, int], float] = {}

    def used_s(self) -> float:
        """Return the seconds of processors that have been used so far."""
        for pid in family(self._pid):
            begun = begun_at(pid)
            if begun is not None:
                self._seen_s[pid, begun] = max(self._seen_s.get((pid, begun), 0.0), cpu_s([pid]))
        return sum(self._seen_s.values())


class Spent:
    """Bounds for how long processes have computed, from a moment of its own for each.

    Linux adds what a running thread uses to its process's clock at the thread's next tick, or when it leaves the processor:
    of what a clock has more than before, up to a tick of each thread (4 ms are usual) may lie before that moment. But no
    process computes for longer than has gone by since, and of what comes in that time all is counted in the end. So each
    look counts no more than the time that has gone by until then, and soon after the moment that is next to nothing.
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[float, float]] = {}
        self._spent_s = 0.0

    def __contains__(self, pid: int) -> bool:
        return pid in self._seen

    def count(self, pid: int) -> None:
        """Count a process's time from now on, unless that is done already."""
        if pid not in self._seen:
            self._seen[pid] = time.monotonic(), cpu_s([pid])

    def look(self) -> float:
        """Return for how many seconds they have computed at most, as far as their clocks show it now."""
        for pid, (begun_s, used_s) in self._seen.items():
            now_s = max(used_s, cpu_s([pid]))
            self._spent_s += min(now_s - used_s, time.monotonic() - begun_s)
            self._seen[pid] = begun_s, now_s
        return self._spent_s
