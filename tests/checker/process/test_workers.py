"""Workers: what does not wait for another part of a check runs beside it, and a GPU's time is what the clock says."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opsmith.checker.outcome import Outcome, passed
from opsmith.checker.process import schedule, workers
from opsmith.checker.process.schedule import Allowance, Task
from opsmith.checker.process.workers import Finished, Workers, run_tasks
from opsmith.checker.properties.table import chosen
from opsmith.checker.report import Column
from some import some

T = {"T": "float32"}
Run = Callable[[Task, Callable[[Any], None], Allowance], Outcome]


@pytest.fixture(autouse=True)
def no_gpu_is_needed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workers, "wake", lambda device: None)


def tasks(device: str, *names: str) -> list[Task]:
    return [Task(item, Column(device, "float32"), T) for item in chosen(names)]


def work(run: Run, listed: list[Task], seconds: float = 1.0, **options: Any) -> list[Finished]:
    return list(run_tasks(Workers(run, lambda task, doing: None, 20.0, seconds, **options), listed))


def waiting(task: Task, tell: Callable[[Any], None], allowed: Allowance) -> Outcome:
    time.sleep(0.2)
    return passed(1, note=str(allowed.seconds))


@pytest.mark.parametrize(("device", "is_counted"), [("cpu", False), ("cuda", True)])
def test_waiting_counts_on_a_gpu_alone(device: str, is_counted: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(schedule, "_SECONDS_OF_GPU", 1.0)
    done = work(waiting, tasks(device, "value", "sizes", "gradient", "empty"))
    last = float(done[-1].outcome.note)
    assert (last <= 1.0 - 3 * 0.2) == is_counted
    assert (last > 0.9) != is_counted


def test_a_process_that_starts_others_leaves_the_gpu_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workers, "wake", lambda device: (tmp_path / device).touch())
    done = work(lambda *_: passed(int((tmp_path / "cuda").exists())), tasks("cuda", "bad arguments", "value"))
    assert [one.outcome.inputs for one in done] == [0, 1]


@pytest.mark.parametrize(
    ("processors", "at_once"), some([(2, 2), (4, 3), (1, 1), (3, 2)], 2, "processes that wait for one another")
)
def test_as_many_queues_as_there_are_processors_for(
    processors: int, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(workers, "cpu_count", lambda: processors)
    names = ("value", "aliasing", "vmap")

    def run(task: Task, tell: Callable[[Any], None], allowed: Allowance) -> Outcome:
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


@pytest.mark.parametrize("processes", some([2, 1], 1, "checks that wait for their end"))
def test_what_is_at_work_at_the_end_of_a_limit_is_stopped_and_what_was_done_stays(processes: int):
    def run(task: Task, tell: Callable[[Any], None], allowed: Allowance) -> Outcome:
        time.sleep(60.0 if task.item.name in ("sizes", "vmap") else 0.0)
        return passed()

    listed = tasks("cpu", "value", "sizes", "aliasing", "func.grad", "vmap")
    started_s = time.monotonic()
    done = work(run, listed, limit_s=3.0, until_s=started_s + 3.0, processes=processes)
    assert 2.5 < time.monotonic() - started_s < 3.6
    assert [one.task for one in done] == listed
    stopped = [one.task.item.name for one in done if one.outcome is not None and one.outcome.is_out_of_time]
    assert stopped == ["sizes", "aliasing", *(["func.grad"] if processes == 1 else []), "vmap"]
    assert {one.outcome.state for one in done if one.outcome is not None} == {"passed", "not run"}


@pytest.mark.parametrize(("device", "tries"), [("cpu", 1), ("cuda", 2)])
def test_what_hangs_on_a_gpu_is_tried_once_more(device: str, tries: int, tmp_path: Path) -> None:
    def hanging_at_first(task: Task, tell: Callable[[Any], None], allowed: Allowance) -> Outcome:
        with (tmp_path / "tries").open("a") as file:
            file.write("x")
        if (tmp_path / "tries").stat().st_size == 1:
            time.sleep(60)
        return passed(1)

    hurried = Workers(hanging_at_first, lambda task, doing: None, 0.5, 1.0)
    (done,) = run_tasks(hurried, tasks(device, "value"))
    assert (tmp_path / "tries").stat().st_size == tries
    assert (done.outcome is not None) == (device == "cuda")


def test_what_hangs_once_more_is_not_waited_for_as_long() -> None:
    def hanging(task: Task, tell: Callable[[Any], None], allowed: Allowance) -> Outcome:
        time.sleep(60)
        return passed(1)

    started_s = time.monotonic()
    hurried = Workers(hanging, lambda task, doing: None, 1.2, 1.0, processes=1)
    done = list(run_tasks(hurried, tasks("cpu", "value", "magnitude", "sizes")))
    assert all(one.ended is not None and one.ended.hung for one in done)
    assert 1.8 <= time.monotonic() - started_s < 3.0
