"""Holds the progress of a build: what compiles, how much is done, since when, and which process it waits for."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opsmith.build.plan import Plan, Step

__all__ = ["State", "find_holder", "running_steps"]

_LOCKS = Path("/proc/locks")

# More names than that make no line.
_NAMES = 2


@dataclass
class State:
    """One build as shown to a waiting user; `line` is its one-line text without a line end."""

    title: str
    jobs: int
    plan: Plan | None = None
    finished: list[str] = field(default_factory=list)
    started_s: float = 0.0
    waited_s: float | None = None
    lock: Path | None = None
    holder: int | None = None

    def start(self, plan: Plan) -> None:
        """Begin, or begin again: a source that is saved meanwhile makes a build start over."""
        self.plan, self.finished, self.started_s, self.waited_s = plan, [], time.perf_counter(), None

    def wait(self, seconds: float) -> None:
        """Note that another process has the build's lock."""
        self.waited_s = seconds
        if self.lock is not None:
            self.holder = find_holder(self.lock)

    @property
    def seconds(self) -> float:
        """How long this has taken by now: the build, or the wait for another process's."""
        return self.waited_s if self.waited_s is not None else time.perf_counter() - self.started_s

    @property
    def other(self) -> str:
        """Who holds the lock."""
        return "another process" if self.holder is None else f"process {self.holder}"

    def line(self) -> str:
        """Return what happens now, such as `building lltm  [1/3]  lltm.cpp, binding.cpp  3.2s`."""
        if self.waited_s is not None:
            return f"waiting for {self.title}, which {self.other} is building  {self.seconds:.0f}s"
        steps = running_steps(self.plan, self.finished, self.jobs) if self.plan else []
        names = [step.description for step in steps]
        shown = ", ".join(names[:_NAMES]) + (f" and {len(names) - _NAMES} more" if len(names) > _NAMES else "")
        total = len(self.plan.steps) if self.plan else 0
        now = f"  {shown}" if shown else ""
        return f"building {self.title}  [{len(self.finished)}/{total}]{now}  {self.seconds:.1f}s"


def running_steps(plan: Plan, finished: list[str], jobs: int) -> list[Step]:
    """Return the steps that run when those of some descriptions are finished: ninja starts them in the plan's order.

    ninja itself tells only what has ended.
    """
    left = Counter(finished)
    waiting = []
    for step in plan.steps:
        if left[step.description]:
            left[step.description] -= 1
        else:
            waiting.append(step)
    missing = {step.output for step in waiting}
    return [step for step in waiting if missing.isdisjoint(step.inputs)][:jobs]


def find_holder(lock: Path) -> int | None:
    """Return the number of the process that holds a lock file, where this machine says so (Linux does)."""
    try:
        status = lock.stat()
        table = _LOCKS.read_text(encoding="ascii")
    except OSError:
        return None
    inode = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    return next((pid for pid, where in _holders(table) if where == inode), None)


def _holders(table: str) -> Iterator[tuple[int, str]]:
    """Yield process and file of each lock of /proc/locks; a process that this one cannot see has the number 0."""
    for line in table.splitlines():
        words = line.split()
        # `3: FLOCK  ADVISORY  WRITE 4711 fe:01:1234 0 EOF`; a line with `->` is of a waiting process.
        if len(words) > 5 and words[1] == "FLOCK" and words[4].isdigit() and int(words[4]) > 0:
            yield int(words[4]), words[5]
