"""Defines the callbacks that follow a build: it starts, progresses, waits, ends or fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from opsmith.build.plan import Plan
from opsmith.store import Artifact

__all__ = ["Progress", "Watcher", "watched"]


@dataclass(frozen=True)
class Progress:
    """One finished step: its description, how many are done of how many, and the seconds since the start."""

    step: str
    done: int
    total: int
    seconds: float


@dataclass(frozen=True)
class Watcher:
    """Who wants to know how a build goes; each may be None. A build that starts ends, or fails."""

    on_start: Callable[[Plan], None] | None = None
    on_progress: Callable[[Progress], None] | None = None
    on_output: Callable[[str], None] | None = None
    on_wait: Callable[[float], None] | None = None
    on_end: Callable[[Plan, float], None] | None = None
    on_fail: Callable[[Plan, float], None] | None = None
    on_found: Callable[[Artifact], None] | None = None  # in the store; after waiting, another process has built it
    on_lock: Callable[[Path], None] | None = None  # the file whose holder builds, where this process has to wait


@contextmanager
def watched(plan: Plan, watcher: Watcher) -> Iterator[None]:
    """Tell a watcher of the start and of the end of what is done in the block; an exception, Ctrl-C too, is a failure."""
    if watcher.on_start is not None:
        watcher.on_start(plan)
    started = time.perf_counter()
    try:
        yield
    except BaseException:
        if watcher.on_fail is not None:
            watcher.on_fail(plan, time.perf_counter() - started)
        raise
    if watcher.on_end is not None:
        watcher.on_end(plan, time.perf_counter() - started)
