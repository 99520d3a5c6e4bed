"""Reads from the kernel what a process and its descendants take: memory, threads, time of processors."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

__all__ = ["cpu_s", "family", "is_running", "memory_bytes"]

_PAGE = 4096
_SCHEDULER_CLOCK = 2


def family(pid: int) -> list[int]:
    """Return a process and its descendants, ancestors first."""
    found, at = [pid], 0
    while at < len(found):
        with suppress(OSError):
            for task in Path(f"/proc/{found[at]}/task").iterdir():
                with suppress(OSError):
                    found += [int(one) for one in (task / "children").read_text().split()]
        at += 1
    return found


def memory_bytes(pid: int) -> int:
    """Return the bytes that a process has in memory, shared ones included; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def is_running(pid: int) -> bool:
    """Whether one of a process's threads uses a processor, or waits for one."""
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError, IndexError):
                # The name, in parentheses, may have anything in it; behind it is the state.
                if (task / "stat").read_text().rpartition(")")[2].split()[0] == "R":
                    return True
    return False


def cpu_s(pids: list[int]) -> float:
    """Return the seconds of processors that processes have used, as the kernel counts them for each."""
    total = 0.0
    for pid in pids:
        with suppress(OSError):
            total += time.clock_gettime((~pid << 3) | _SCHEDULER_CLOCK)
    return total
