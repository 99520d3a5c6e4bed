"""Tests that no other worker runs beside: all of them come last, and one wait for the other workers serves for many."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest


class Turns:
    """The turns of one worker's tests, which are files that all workers lock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._alone: ExitStack | None = None

    @contextmanager
    def of(self, item: pytest.Item, following: pytest.Item | None) -> Iterator[None]:
        """Hold a test's turn while it runs: beside those of other workers, or alone, when they have finished theirs.

        A worker that is alone stays so until a test follows that others may run beside. What follows is pytest's
        `nextitem`, which pytest-xdist knows before it runs a test, and gives to no other worker then.
        """
        if not runs_alone(item):
            with self._taken(fcntl.LOCK_SH):
                yield
            return
        if self._alone is None:
            self._alone = ExitStack()
            self._alone.enter_context(self._taken(fcntl.LOCK_EX))
        try:
            with all_cores():
                yield
        finally:
            if following is None or not runs_alone(following):
                self._alone.close()
                self._alone = None

    @contextmanager
    def _taken(self, kind: int) -> Iterator[None]:
        with ExitStack() as turn:
            # Who waits holds the queue, so that nobody overtakes.
            with _locked(self.root / "queue.lock", fcntl.LOCK_EX):
                turn.enter_context(_locked(self.root / "turn.lock", kind))
            yield


def runs_alone(item: pytest.Item) -> bool:
    """Whether a test, if it runs at all, is marked to have all cores or the whole GPU."""
    return item.get_closest_marker("skip") is None and any(
        item.get_closest_marker(mark) is not None for mark in ("all_cores", "whole_gpu")
    )


def put_those_alone_last(items: list[pytest.Item]) -> None:
    """Sort tests so that those that run alone follow one another.

    Between others, each would wait for the longest of the tests that run beside it, and all workers with it.
    """
    items.sort(key=runs_alone)


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, kind)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # a process that was forked meanwhile may have the file too


@contextmanager
def all_cores() -> Iterator[None]:
    """Let this process, and what it starts, run on every core of the machine."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
