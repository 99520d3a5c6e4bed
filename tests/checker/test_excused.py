"""Differences that are notes and not failures: near overflow, and where an infinity meets a padding."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from opsmith.checker.properties.table import chosen
from opsmith.checker.report import Report
from opsmith.checker.run import CheckPlan, run_check
from opsmith.subject.subject import subject_of


def _report(kernel: Callable[..., Tensor], reference: Callable[..., Tensor], name: str, dtype: str) -> Report:
    subject = subject_of(kernel, reference=reference, devices=("cpu",))
    return run_check(subject, CheckPlan(chosen((name,)), dtypes=(dtype,)))


def mean(x: Float[Tensor, "B 5"]) -> Float[Tensor, "B 5"]:
    return x.clone()


def doubled_first(x: Tensor) -> Tensor:
    return 4 * x / 4


def squared_first(x: Tensor) -> Tensor:
    return torch.sqrt(x * x) * x.sign()


def test_overflow_near_the_largest_number_is_a_note() -> None:
    report = _report(doubled_first, mean, "magnitude", "float32")
    assert report.ok
    note = "magnitude (float32): differs from the reference only where it is within a factor of 2^8 of overflow"
    assert note in report.notes


def zero_of_large(x: Tensor) -> Tensor:
    return torch.where(x.abs() < 2.0**126, x, 0.0)


def test_a_finite_number_of_one_element_has_not_overflowed() -> None:
    assert not _report(zero_of_large, mean, "magnitude", "float32").ok


@pytest.mark.slow("several properties of an operator")
def test_in_half_precision_and_far_from_it_overflow_fails() -> None:
    assert not _report(doubled_first, mean, "magnitude", "float16").ok
    assert not _report(squared_first, mean, "magnitude", "float32").ok


def spread_out(x: Float[Tensor, "B 5"]) -> Float[Tensor, "B 5"]:
    """A product with ones and zeros, in which each infinity meets all zeros of its row."""
    weights = torch.eye(5, dtype=x.dtype)
    return x @ (weights + weights.roll(1, 1))


def sparse(x: Tensor) -> Tensor:
    return x + x.roll(1, 1)


def without_nan(x: Tensor) -> Tensor:
    return sparse(x.nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf))


def test_nan_of_a_padding_is_a_note_and_other_nan_is_not() -> None:
    report = _report(sparse, spread_out, "special values", "float32")
    assert report.ok
    assert any("zeros of a padding" in note for note in report.notes)
    assert not _report(without_nan, spread_out, "special values", "float32").ok
