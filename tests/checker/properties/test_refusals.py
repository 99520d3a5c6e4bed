"""Arguments that do not fit: what is answered, crashes or hangs is told, and operators that look first pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from kit import unguarded

from opsmith.checker.outcome import Outcome
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.refusals import bad_arguments
from opsmith.checker.properties.table import chosen
from opsmith.checker.run import CheckPlan, run_check
from opsmith.ops.add2 import add2
from opsmith.ops.lltm import lltm_cell, lltm_gates
from opsmith.ops.sigmoid import sigmoid
from opsmith.subject.subject import Subject, subject_of

pytestmark = pytest.mark.compile


def check(op: Any, **more: Any) -> Outcome:
    subject = subject_of(op, **more)
    assert subject.kernel is not None  # builds it before the children are forked
    return bad_arguments(Context(subject, "cpu", subject.dtypes[0]))


def pair() -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.randn(4, 5), torch.randn(4, 5))]


def check_product(op: Callable[..., Any]) -> Outcome:
    subject: Subject = subject_of(op, reference=unguarded.product_reference, examples=pair)
    # The examples as they are: the kernels know float32 alone.
    return bad_arguments(Context(subject, "cpu", {}))


@pytest.mark.parametrize("op", [add2, sigmoid, lltm_cell, lltm_gates, unguarded.rows, unguarded.every, unguarded.until])
def test_operators_that_refuse(op: Any) -> None:
    outcome = check(op)
    assert outcome.state == "passed", outcome.findings
    assert outcome.inputs >= 8


def test_an_index_outside_of_its_table() -> None:
    (finding,) = check(unguarded.rows_on_trust).findings
    assert "index[-1] = -1099511627776: it crashes: a segmentation fault" in finding.message
    assert "table" not in finding.message
    assert "TORCH_CHECK" in finding.hint


def test_sizes_that_the_reference_refuses_in_its_own_words() -> None:
    (finding,) = check(unguarded.weighted_on_trust).findings
    assert finding.message.splitlines()[1:] == [
        "  weight with 0 in dimension 0: it returned a result, though the reference rejects it (ValueError: there are no "
        "weights)"
    ]


def test_a_division_by_zero() -> None:
    (finding,) = check(unguarded.every_on_trust).findings
    assert "step = 0: it crashes: a division by zero" in finding.message
    assert "step = -1: it returned a result, though the reference rejects it (ValueError: the step" in finding.message


@pytest.mark.slow("waits until a call counts as hanging")
def test_a_hang() -> None:
    (finding,) = check(unguarded.until_on_trust).findings
    assert "steps = -1: it hangs" in finding.message


def test_sizes_and_types_that_are_not_checked() -> None:
    (finding,) = check_product(unguarded.product_on_trust).findings
    assert "a with 6 in dimension 1: it returned a result, though the reference rejects it" in finding.message
    (finding,) = check_product(unguarded.product_of_any_type).findings
    assert "b of int64: it returned something else than the reference does for it" in finding.message
    assert "dimension" not in finding.message


def test_a_lazily_negated_view_is_not_read_as_it_lies() -> None:
    (finding,) = check_product(unguarded.raw_product).findings
    assert finding.message.splitlines()[1:] == [
        f"  {name} as a lazily negated view: it returned something else than the reference does for it"
        for name in ("a", "b")
    ]


def test_a_foreign_operator_that_refuses() -> None:
    outcome = check_product(unguarded.product)
    assert outcome.state == "passed", outcome.findings


@pytest.mark.parametrize(("op", "state"), [(unguarded.negate_, "passed"), (unguarded.negate_on_trust_, "failed")])
def test_memory_that_overlaps_is_not_written_to(op: Any, state: str) -> None:
    subject = subject_of(op, reference=unguarded.negate_reference, examples=[(torch.randn(4, 5),)])
    outcome = bad_arguments(Context(subject, "cpu", {}))
    assert outcome.state == state
    assert state == "passed" or "x expanded, though it is written to" in outcome.findings[0].message.splitlines()[1]


def test_memory_that_is_spoiled_is_another_matter() -> None:
    # The process ends at any call after the first, so at one of the probes.
    outcome = check(unguarded.scribbles)
    assert outcome.state != "failed", outcome.findings


def test_in_the_report_of_a_check() -> None:
    report = run_check(subject_of(unguarded.every_on_trust), CheckPlan(chosen(("bad arguments",))))
    assert report.failed == ("bad arguments",)


def test_a_kernel_that_refuses_every_call_is_not_judged() -> None:
    def refuse(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("never")

    assert check_product(refuse).state == "not run"


def test_a_process_that_uses_a_gpu_forks_none(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = replace(subject_of(unguarded.every), devices=("cuda",))
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    (result,) = run_check(subject, CheckPlan(chosen(("bad arguments",)))).results
    assert result.outcome.state == "not run"
    assert "already uses the GPU" in result.outcome.note
