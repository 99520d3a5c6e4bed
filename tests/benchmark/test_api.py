"""`opsmith.bench(op)`: what it takes, what it gives back, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import opsmith
from opsmith.benchmark import BenchReport, BenchReports
from opsmith.errors import ArgumentError

QUICK: dict[str, Any] = {"phases": "forward", "against": "eager", "seconds": 2.0, "device": "cpu"}


def annotated_double(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x * 2


def double(x: Tensor) -> Tensor:
    return x + x


@pytest.mark.nightly("times several operators; make test times one")
@pytest.mark.compile
def test_operators_and_a_module():
    from kit_bench import operators

    report = opsmith.bench(operators.twice, sizes=[{"B": 4, "N": 8}], dtypes=[torch.float64], **QUICK)
    assert isinstance(report, BenchReport)
    assert report.ok
    assert report.operator == "kit_bench.twice"
    assert [(timing.competitor, timing.dtype) for timing in report.timings] == [
        ("opsmith", "float64"),
        ("eager", "float64"),
    ]
    assert "kit_bench.twice" in str(report)

    both = opsmith.bench([operators.twice, operators.off], sizes=[{"B": 4, "N": 8}], **QUICK)
    assert isinstance(both, BenchReports)
    assert [one.operator for one in both] == ["kit_bench.twice", "kit_bench.off"]
    assert not both.ok
    everything = opsmith.bench(operators, sizes=[{"B": 4, "N": 8}], **QUICK)
    assert len(everything) == 2


@pytest.mark.slow("compiles with Inductor; make test times an operator")
def test_a_function_with_a_reference_and_examples():
    report = opsmith.bench(double, reference=lambda x: x * 2, examples=[(torch.randn(5),)], **QUICK)
    assert report.ok
    assert [timing.workload for timing in report.timings] == ["example 1", "example 1"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"phases": ["sideways"]}, "unknown phase 'sideways'; the phases are forward, backward, both"),
        ({"seconds": 0}, "seconds must be more than 0, not 0"),
        ({"threads": 0}, "threads must be at least 1, not 0"),
        ({"dtypes": ["float8"]}, "unknown element type 'float8'"),
        ({"dtypes": ["int32"]}, "has no element type int32"),
        ({"against": ["nobody"]}, "has no competitor 'nobody'"),
        ({"sizes": [{"M": 1}]}, "has no size M; it has N"),
        ({"reference": None}, "has no reference to compare it with"),
        ({"device": "tpu"}, "cannot be timed on tpu"),
    ],
)
def test_what_is_refused(given: dict[str, Any], message: str):
    with pytest.raises(ArgumentError, match=message):
        opsmith.bench(double, **{"reference": annotated_double, **QUICK, **given})


def test_where_an_operator_is_timed(monkeypatch: pytest.MonkeyPatch):
    from kit_bench import operators

    from opsmith.benchmark.api import bench_subject
    from opsmith.benchmark.options import BenchOptions

    # As on a machine with a GPU, which the kernels of the kit are not for.
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert bench_subject(operators.twice, BenchOptions())[1] == "cpu"
    assert bench_subject(double, BenchOptions(reference=annotated_double))[1] == "cuda"
    assert bench_subject(double, BenchOptions(device="cpu", reference=annotated_double))[1] == "cpu"
    with pytest.raises(ArgumentError, match=r"kit_bench\.twice cannot be timed on cuda"):
        bench_subject(operators.twice, BenchOptions(device="cuda"))


def test_a_reference_for_several_is_refused():
    with pytest.raises(ArgumentError, match="reference= belongs to one operator; call bench\\(\\) for each"):
        opsmith.bench([double, double], reference=double)
