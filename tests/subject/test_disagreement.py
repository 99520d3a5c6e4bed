"""The comparison of results with expected ones: every way to be wrong is found, and named."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from opsmith.subject.disagreement import Expected, Limits, compare


def expected(*values: float, allowed: float = 1e-6, own: Tensor | None = None) -> Expected:
    value = torch.tensor(values, dtype=torch.float64)
    limits = Limits((torch.full_like(value, allowed),))
    return Expected((value,), None if own is None else (own,), (torch.zeros_like(value),), lambda: limits)


def test_what_is_within_the_allowed_error_agrees():
    assert compare([torch.tensor([1.0, 2.0 + 5e-7])], expected(1, 2)) is None
    assert compare([torch.tensor([math.nan, math.inf])], expected(math.nan, math.inf)) is None
    assert compare([torch.empty(0)], expected()) is None


@pytest.mark.parametrize(
    ("found", "wanted", "kind"),
    [(2.1, 2.0, "value"), (math.nan, 2.0, "nan"), (2.0, math.nan, "nan"), (math.inf, 2.0, "inf")],
)
def test_the_worst_element_is_named(found: float, wanted: float, kind: str):
    wrong = compare([torch.tensor([1.0, found, 3.000002])], expected(1, wanted, 3))
    assert wrong is not None
    assert (wrong.kind, wrong.index, wrong.elements) == (kind, (1,), 3)


def test_another_form_is_named():
    assert str(compare([torch.zeros(2, 1)], expected(0, 0))) == "output 0 has the shape (2, 1), the reference has (2,)"
    assert str(compare([], expected(0))) == "the number of results is 0, the reference has 1"
    without = Expected((), None, (), lambda: Limits(()))
    assert str(compare([torch.zeros(1)], without)).endswith("is 1, the reference has none (does it return?)")


def test_what_the_reference_gives_in_the_same_type_agrees():
    own = torch.tensor([1.0, math.nan])
    assert compare([own.clone()], expected(1, 2, own=own)) is None
    assert compare([torch.tensor([math.nan, math.nan])], expected(1, 2, own=own)) is not None


@pytest.mark.parametrize("count", [0, 2])
def test_a_result_too_few_or_too_many(count: int):
    wrong = compare([torch.tensor([1.0])] * count, expected(1))
    assert wrong is not None
    assert wrong.kind == "count"


def test_a_result_of_another_shape():
    wrong = compare([torch.tensor([[1.0]])], expected(1))
    assert wrong is not None
    assert wrong.kind == "shape"


def test_a_result_of_another_element_type():
    """Judged by its own precision, every coarser type would be right."""
    own = torch.tensor([1.0, 2.0])
    wrong = compare([own.bfloat16()], expected(1, 2, own=own))
    assert wrong is not None
    assert wrong.kind == "dtype"
    assert str(wrong) == "output 0 is torch.bfloat16, the reference's is torch.float32"
    assert compare([own.double()], expected(1, 2, own=own)) is not None


def test_without_results_in_the_type_any_floating_type_is_one():
    assert compare([torch.tensor([1.0, 2.0]).half()], expected(1, 2)) is None
    wrong = compare([torch.tensor([0, 0])], expected(1, 2))
    assert wrong is not None
    assert wrong.kind == "dtype"


def test_an_integer_may_be_off_by_what_is_allowed_and_no_more():
    value = torch.tensor([5, 2**60])
    limits = Limits((torch.tensor([2.0, 0.0], dtype=torch.float64),))
    wanted = Expected((value,), None, (torch.zeros(2, dtype=torch.float64),), lambda: limits)
    assert compare([value + torch.tensor([2, 0])], wanted) is None
    assert compare([value + torch.tensor([3, 0])], wanted) is not None
    assert compare([value + torch.tensor([0, 1])], wanted) is not None  # float64 holds neither of the two
