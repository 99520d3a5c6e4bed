"""Indices past 2^31: computed in 32 bits they are found out, without memory; strides ignored are another matter."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kit import narrow

from opsmith.checker.memory.available import available_address_bytes, available_memory_bytes
from opsmith.checker.outcome import Outcome
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.large import large
from opsmith.checker.properties.table import chosen
from opsmith.checker.run import CheckPlan, run_check
from opsmith.ops.add2 import add2
from opsmith.ops.lltm import lltm_cell, lltm_gates
from opsmith.ops.sigmoid import sigmoid
from opsmith.subject.subject import subject_of

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(available_address_bytes("cpu") < 12e9, reason="needs 12 GB of addresses"),
]


def check(op: Any, **more: Any) -> Outcome:
    subject = subject_of(op)
    return large(Context(subject, "cpu", subject.dtypes[0], **more))


@pytest.mark.slow("calls with large tensors")
@pytest.mark.parametrize("op", [add2, sigmoid, lltm_cell, lltm_gates, narrow.twice])
def test_operators_that_count_in_64_bits(op: Any) -> None:
    outcome = check(op)
    assert outcome.state == "passed", outcome.findings
    assert outcome.inputs >= 2
    assert "--large" in outcome.note


def test_an_index_in_32_bits() -> None:
    (finding,) = check(narrow.twice_narrow).findings
    assert "has elements past index 2^31: output 0" in finding.message
    assert "with a small stride it is right" in finding.message
    assert "int64_t" in finding.hint


def test_in_the_report_of_a_check() -> None:
    report = run_check(subject_of(narrow.twice_narrow), CheckPlan(chosen(("value", "strides", "large"))))
    assert report.failed == ("large",)


def test_a_kernel_that_ignores_strides_is_not_judged() -> None:
    outcome = check(narrow.twice_dense)
    assert outcome.state == "not run"
    assert "takes no strided input" in outcome.note


def test_a_refusal_is_right() -> None:
    def twice(x: torch.Tensor) -> torch.Tensor:
        if max(x.stride()) > 2**29:
            raise RuntimeError("x is too large for 32-bit indices")
        return 2 * x

    subject = subject_of(twice, reference=lambda x: 2 * x, examples=[(torch.randn(3, 4),)])
    outcome = large(Context(subject, "cpu", subject.dtypes[0]))
    assert outcome.state == "passed"
    assert outcome.note.startswith("it rejects 2 of 2 calls")


@pytest.mark.skipif(available_memory_bytes("cpu") > 60e9, reason="there is memory for it here")
def test_calls_that_do_not_fit_are_not_made() -> None:
    # 2^31 numbers in half precision, eight times: more than this machine has.
    outcome = check(lltm_gates, large=True)
    assert outcome.state == "passed"
    assert "calls of 2^31 elements need 34 GB of memory" in outcome.note


@pytest.mark.slow("calls with more than 2^31 elements")
@pytest.mark.skipif(available_memory_bytes("cpu") < 18e9, reason="needs 18 GB of memory")
def test_a_size_in_32_bits() -> None:
    assert check(narrow.negated, large=True).state == "passed"
    (finding,) = check(narrow.negated_narrow, large=True).findings
    assert finding.message.startswith("N = 2,147,483,651: output 0 differs from the reference's from element 0 on")
