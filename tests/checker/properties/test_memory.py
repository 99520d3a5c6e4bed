"""What kernels do to memory: each defect is found under its own name, and operators without it pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from kit_memory import doubles, shared

from opsmith.checker.properties.table import chosen
from opsmith.checker.report import Report
from opsmith.checker.run import CheckPlan, run_check
from opsmith.ops.add2 import add2
from opsmith.ops.lltm import lltm_cell, lltm_gates
from opsmith.ops.sigmoid import sigmoid
from opsmith.subject.subject import subject_of
from some import some

pytestmark = pytest.mark.compile

NAMES = ("outputs written", "writes outside", "reads outside", "inputs unchanged", "aliasing")


def check(op: Any, dtypes: tuple[str, ...] = ("float32",), **more: Any) -> Report:
    return run_check(subject_of(op, **more), CheckPlan(properties=chosen(NAMES), dtypes=dtypes))


def assert_passes(report: Report) -> None:
    assert report.ok, [finding.message for finding in report.findings]
    assert {result.outcome.state for result in report.results} == {"passed"}, report.results
    assert all(result.outcome.inputs > 1 for result in report.results)


@pytest.mark.parametrize("op", some([add2, sigmoid, lltm_gates], 0, "memory of operators that are right", at_most=1))
def test_operators_of_the_library(op: Any) -> None:
    assert_passes(check(op, dtypes=()))


@pytest.mark.slow("a check of matrix products")
def test_an_operator_with_matrix_products() -> None:
    assert_passes(check(lltm_cell))


@pytest.mark.parametrize(
    "op",
    some([doubles.right, doubles.in_place_, shared.fresh, shared.fresh_twice], 2, "memory of operators that are right"),
)
def test_small_operators_without_a_defect(op: Any) -> None:
    assert_passes(check(op))


@pytest.mark.parametrize(
    ("op", "name", "words"),
    [
        (doubles.without_tail, "outputs written", "output 0[0] (1 of 1 elements) is not written"),
        (doubles.adds_to_it, "outputs written", "output 0"),
        (doubles.bad_slope, "outputs written", "the gradient of x[0]"),
        (doubles.one_behind, "writes outside", "to byte 1 past the end of output 0 (4 bytes)"),
        (doubles.one_before, "writes outside", "to byte 1 before the start of output 0 (4 bytes)"),
        (doubles.between_, "writes outside", "memory between the elements of x"),
        (doubles.next_one, "reads outside", "output 0[0] (1 of 1 elements) depends on"),
        (doubles.clears_input, "inputs unchanged", "x was changed"),
        (shared.first_half, "aliasing", "output 0 shares memory with x"),
        (shared.contiguous_of, "aliasing", "output 0 shares memory with x"),
        (shared.kept_buffer, "aliasing", "a second call returns the memory of output 0"),
        (shared.same_twice, "aliasing", "outputs 0 and 1 share memory"),
    ],
)
def test_a_defect_has_one_name(op: Any, name: str, words: str) -> None:
    report = check(op)
    assert report.failed == (name,)
    assert words in report.findings[0].message


def test_ignored_strides_are_no_defect_of_memory() -> None:
    assert_passes(check(doubles.no_strides))


@pytest.mark.parametrize(
    ("op", "name"),
    some(
        [
            (shared.clears_first, "inputs unchanged"),
            (shared.without_last, "outputs written"),
            (shared.doubled, None),
        ],
        1,
        "whole checks",
    ),
)
def test_operators_in_python(op: Any, name: str | None) -> None:
    report = check(op, reference=shared.reference)
    assert report.failed == ((name,) if name else ())
    if name is None:
        assert_passes(report)


@pytest.mark.slow("several properties of operators in Python")
def test_python_operators_that_return_their_argument() -> None:
    # PyTorch refuses such a result itself, and the argument was written to before.
    assert "aliasing" in check(shared.itself, reference=shared.reference).failed
    assert check(torch.ops.kit_memory.twin, reference=shared.same).failed == ("aliasing",)
    # This one writes the same numbers to it: memory that cannot be written to shows it.
    assert check(shared.itself_by_hand, reference=shared.same).failed == ("inputs unchanged",)


@pytest.mark.parametrize("op", [torch.ops.kit_memory.view_of, torch.ops.kit_memory.parts])
def test_aliases_that_the_schema_declares(op: Any) -> None:
    references: dict[Any, Callable[..., Any]] = {
        torch.ops.kit_memory.view_of: lambda x: x.view(-1),
        torch.ops.kit_memory.parts: lambda x: list(x.split(2)),
    }
    report = check(op, reference=references[op], examples=[(torch.randn(6),)])
    assert report.ok, report.findings


def test_one_tensor_as_two_arguments_of_an_operator_that_returns_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    plan = CheckPlan(properties=chosen(("aliasing",)), dtypes=("float64",))
    assert_passes(run_check(subject_of(shared.added_right_, reference=shared.added_), plan))
    report = run_check(subject_of(shared.added_once_, reference=shared.added_), plan)
    assert report.failed == ("aliasing",)
    (finding,) = report.findings
    assert finding.message.startswith("plain: with one tensor as a and as b, and not with two equal ones, ")
    assert "program does not show it" not in finding.message
    assert "\nb = a\n" in finding.snippet
    exec(finding.snippet, {})
    after, expected = (line.partition(":")[2].strip() for line in capsys.readouterr().out.splitlines())
    assert after != expected


@pytest.mark.slow("several properties of an operator in Python")
def test_examples_keep_their_numbers() -> None:
    x = torch.randn(9)
    before = x.clone()
    report = check(shared.clears_first, reference=shared.reference, examples=[(x,)])
    assert report.failed == ("inputs unchanged",)
    assert torch.equal(x, before)
