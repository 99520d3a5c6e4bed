"""The program that counts judgements: candidates of a task each, batches beside each other, all of them accepted."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))
    return importlib.import_module("judge_throughput")


def test_there_are_candidates_for_tasks_of_their_own(program: ModuleType) -> None:
    for device in ("cpu", "cuda"):
        rows = program.candidates(device, 4)
        assert len({row.task for row in rows}) == 4
        assert all(row.needs_gpu == (device == "cuda") and not row.is_cheat for row in rows)


@pytest.mark.slow("judges two candidates")
def test_batches_beside_each_other_are_counted_together(program: ModuleType) -> None:
    found = program.judged(program.candidates("cpu", 1), "cpu", ("--no-time", "--no-operator"), 2)
    assert found["judged"] == 2
    assert found["per_hour"] == pytest.approx(7200 / found["seconds"])
