"""Lanes: what does not wait for another part of a check runs beside it, and a GPU's time is what the clock says."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opsmith.checker.outcome import Outcome, passed
from opsmith.checker.process import workers as lanes
from opsmith.checker.process.workers import Done, Lane, Task, in_lanes
from opsmith.checker.properties.table import chosen
from opsmith.checker.report import Column

T = {"T": "float32"}
Run = Callable[[Task, Callable[[Any], None], float], Outcome]


@pytest.fixture(autouse=True)
def no_gpu_is_needed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lanes, "wake", lambda device: None)


def tasks(device: str, *names: str) -> list[Task]:
    return [Task(item, Column(device, "float32"), T) for item in chosen(names)]


def work(run: Run, listed: list[Task], seconds: float = 1.0) -> list[Done]:
    return list(in_lanes(Lane(run, lambda task, doing: None, silence_s=20.0, seconds=seconds), listed))


def waiting(task: Task, tell: Callable[[Any], None], seconds: float) -> Outcome:
    time.sleep(0.2)
    return passed(1, note=str(seconds))


@pytest.mark.parametrize(("device", "is_counted"), [("cpu", False), ("cuda", True)])
def test_waiting_counts_on_a_gpu_alone(device: str, is_counted: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lanes, "_SECONDS_ELSEWHERE", 1.0)
    done = work(waiting, tasks(device, "value", "sizes", "gradient", "empty"))
    last = float(done[-1].outcome.note)
    assert (last <= 1.0 - 3 * 0.2) == is_counted
    assert (last > 0.9) != is_counted


def test_a_process_that_starts_others_leaves_the_gpu_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lanes, "wake", lambda device: (tmp_path / device).touch())
    done = work(lambda *_: passed(int((tmp_path / "cuda").exists())), tasks("cuda", "bad arguments", "value"))
    assert [one.outcome.inputs for one in done] == [0, 1]


@pytest.mark.parametrize(("processors", "at_once"), [(1, 1), (2, 2), (3, 2), (4, 3)])
def test_as_many_lanes_as_there_are_processors_for(
    processors: int, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lanes, "cpu_count", lambda: processors)
    names = ("value", "determinism", "vmap")

    def run(task: Task, tell: Callable[[Any], None], seconds: float) -> Outcome:
        here = tmp_path / f"{task.item.name} {task.column.device}"
        here.touch()
        most = 0
        for _ in range(20):
            most = max(most, len(list(tmp_path.iterdir())))
            time.sleep(0.02)
        here.unlink()
        return passed(1, note=str(most))

    listed = [*tasks("cpu", *names), *tasks("cuda", "value")]
    done = work(run, listed)
    assert [one.task for one in done] == listed
    assert max(int(one.outcome.note) for one in done) == at_once
