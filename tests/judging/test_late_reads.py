"""Results that are computed when they are read are seen, and what a process does after a call is not taken for that."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from opsmith.judging.timing import late_reads
from opsmith.judging.timing.late_reads import LateReads

_WORK_S = 0.004


@dataclass
class Simulated:
    """A cell with the processors' time of its process; threads wait for work at full speed after each call."""

    waits_s: float = 0.0
    is_lazy: bool = False
    device: str = "cpu"
    pid: int = 1
    used_s: float = 0.0
    left_s: float = 0.0
    unread: bool = False
    looks: list[float] = field(default_factory=list)

    def run(self) -> None:
        self.used_s += 0.0 if self.is_lazy else _WORK_S
        self.left_s, self.unread = self.waits_s, True

    def give(self, which: range) -> list[Any]:
        # Whoever waits at full speed does so while results are read.
        self.spend(self.waits_s)
        self.used_s += _WORK_S if self.is_lazy and self.unread else 0.0
        self.unread = False
        self.used_s += 0.0005
        return [[] for _ in which]

    def spend(self, seconds: float) -> None:
        taken_s = min(self.left_s, seconds)
        self.left_s -= taken_s
        self.used_s += taken_s

    def is_running(self, pid: int) -> bool:
        self.spend(0.0004)
        return self.left_s > 0


@dataclass
class Turns:
    """A cell on a GPU that other programs use too, in turns: what comes after a pause has to wait for the next one."""

    is_lazy: bool = False
    device: str = "cuda"
    pid: int = 1
    now_s: float = 0.0
    is_in_turn: bool = True
    unread: bool = False

    def run(self) -> None:
        self.work(0.0 if self.is_lazy else _WORK_S)
        self.unread = True
        self.sleep(0.001)  # what the judge does between

    def give(self, which: range) -> list[Any]:
        self.work(0.0005 + (_WORK_S if self.is_lazy and self.unread else 0.0))
        self.unread = False
        return [[] for _ in which]

    def work(self, seconds: float) -> None:
        self.now_s += seconds + (0.0 if self.is_in_turn else _WORK_S)
        self.is_in_turn = True

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.is_in_turn = False


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes rounds of calls and reads in a simulated cell."""

    def rounds(cell: Simulated | Turns, count: int) -> LateReads:
        if isinstance(cell, Turns):
            monkeypatch.setattr(late_reads.time, "perf_counter", lambda: cell.now_s)
            monkeypatch.setattr(late_reads.time, "sleep", cell.sleep)
        else:
            monkeypatch.setattr(late_reads, "Meter", lambda pid: SimpleNamespace(used_s=lambda: cell.used_s))
            monkeypatch.setattr(late_reads, "family", lambda pid: [pid])
            monkeypatch.setattr(late_reads, "is_running", cell.is_running)
            monkeypatch.setattr(late_reads.time, "sleep", lambda seconds: None)
        late = LateReads(cell)  # type: ignore[arg-type]
        for _ in range(count):
            begun_s = late.used_s()
            cell.run()
            late.read(range(3), begun_s)
        return late

    return rounds


def test_results_that_are_computed_on_reading_are_late(read: Any) -> None:
    assert read(Simulated(is_lazy=True), 8).are_late
    assert read(Simulated(is_lazy=True, waits_s=0.004), 8).are_late
    assert not read(Simulated(), 8).are_late


def test_threads_that_wait_for_work_after_a_call_are_no_reads(read: Any) -> None:
    """As OpenMP's do: the first read would be charged with them."""
    assert not read(Simulated(waits_s=0.007), 8).are_late


def test_a_read_that_waits_for_a_gpu_is_not_late(read: Any) -> None:
    assert not read(Turns(), 16).are_late
    assert read(Turns(is_lazy=True), 16).are_late


def test_a_suspicion_takes_more_reads(read: Any) -> None:
    assert read(Simulated(is_lazy=True), 4).are_unsure
    assert not read(Simulated(is_lazy=True), 16).are_unsure
    assert not read(Simulated(is_lazy=True), 3).are_late
    assert not read(Simulated(), 4).are_unsure
