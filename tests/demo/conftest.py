"""A result of the demo that needed no compiler, and digits of which everything is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch

from opsmith.benchmark.machine import Machine
from opsmith.benchmark.result import BenchReport, Timing
from opsmith.benchmark.statistics import Interval, Verdict
from opsmith.checker.outcome import Outcome, passed
from opsmith.checker.report import Column, Report, Result
from opsmith.demo.agreement import Agreement, Tally
from opsmith.demo.builds import Build
from opsmith.demo.digits import Digits
from opsmith.demo.results import Results
from opsmith.demo.slopes import Slope
from opsmith.demo.training import Run

LABELS = [index % 10 for index in range(50)]
FACTS = {
    "opsmith": "0.1",
    "torch": "2.13",
    "python": "3.12",
    "system": "Linux",
    "processor": "a processor",
    "cores": 2,
    "threads": 2,
    "gpu": None,
    "compilers": {"C++": "gcc 12"},
}


def check_of(outcome: Outcome) -> Report:
    return Report("opsmith.lltm_cell", (Result("value", Column("cpu", "float64"), outcome),), 0, 1.0)


def bench_of(ratio: float, kind: str) -> BenchReport:
    """Return the benchmark of one size: 10 us, and what is so many times as fast as eager."""
    time, other = Interval(10e-6, 9e-6, 11e-6), Interval(10e-6 * ratio, 9e-6 * ratio, 11e-6 * ratio)
    verdict = Verdict(kind, Interval(ratio, ratio * 0.99, ratio * 1.01), 0.01)
    size = "B 16, I 32, S 128"
    timings = (
        Timing(size, "float32", "forward", "opsmith", time, time, bytes_moved=1000),
        Timing(size, "float32", "forward", "eager", other, other, verdict, verdict, bytes_moved=1000),
    )
    machine = Machine("cpu", "a processor", 2, 2, "Linux", "2.13", "3.12")
    return BenchReport("opsmith.lltm_cell", machine, timings, 0, 5.0, date="2026-01-01T00:00:00+00:00")


@pytest.fixture
def digits() -> Digits:
    images = torch.linspace(0, 1, 50 * 64).view(50, 8, 8)
    return Digits(images, torch.tensor(LABELS), images, torch.tensor(LABELS))


@pytest.fixture(name="check_of")
def check_of_() -> Callable[..., Report]:
    return check_of


@pytest.fixture(name="bench_of")
def bench_of_() -> Callable[..., BenchReport]:
    return bench_of


@pytest.fixture
def results() -> Results:
    """Everything is as promised, and 1 of 50 digits is wrong."""
    return Results(
        machine=FACTS,
        devices=("cpu",),
        gpu_missing="this PyTorch does not see one",
        quick=False,
        seed=0,
        builds=(
            Build("jit", 1.5, "lib/jit/_ops.so", 2048, "a" * 64),
            Build("setuptools", 2.5, "lib/setuptools/_ops.so", 2048, "a" * 64),
            Build("cmake", left_out="CMake is <not> installed"),
        ),
        agreement=Agreement(("jit", "setuptools", "this process"), (Tally("opsmith::lltm_cell", 3, 1000, 0),), ()),
        checks=(check_of(passed(5)),),
        slopes=(Slope(0.0, "cpu", 1.0, 0.0, 1.0), Slope(100.0, "cpu", 1.0, float("nan"), 1.0)),
        benchmarks=(bench_of(2.0, "faster"),),
        training_build_s=5.5,
        runs=(
            Run("opsmith C++", 1.0, 10, 2.0, (2.0, 1.0), (0.5, 0.98), (*LABELS[:-1], 3)),
            Run("reference", 1.0, 10, 3.0, (2.0, 1.0), (0.5, 0.98), (*LABELS[:-1], 3)),
        ),
        seconds=12.0,
    )


@pytest.fixture
def with_changes(results: Results):
    """Return the good results with some fields replaced."""
    return lambda **changes: dataclasses.replace(results, **changes)
