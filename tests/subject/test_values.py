"""What the kinds of values hold: rows of special values, and ties at the numbers that matter."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.values import fill

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def _kinds_of_rows(rows: Tensor) -> set[str]:
    found = set()
    for row in rows:
        if bool(row.isnan().all()):
            found.add("NaN")
        if bool((row == -math.inf).all()):
            found.add("-inf")
        if bool((row == math.inf).all()):
            found.add("inf")
        if int(row.isfinite().sum()) == 1 and int((row == -math.inf).sum()) == len(row) - 1:
            found.add("one finite")
        if int((row == math.inf).sum()) == 1 and int(row.isfinite().sum()) == len(row) - 1:
            found.add("one inf")
        if bool(row.isfinite().all()) and bool((row == row[0]).all()):
            found.add("equal")
    return found


ALL = {"NaN", "-inf", "inf", "one finite", "one inf", "equal"}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rows_and_columns_of_special_values(dtype: torch.dtype):
    assert _kinds_of_rows(fill((17, 25), dtype, "rows", 1)) == ALL
    assert _kinds_of_rows(fill((17, 25), dtype, "columns", 1).t()) == ALL
    assert _kinds_of_rows(fill((2, 5, 9), dtype, "rows", 1).reshape(10, 9)) == ALL
    assert fill((0, 3), dtype, "rows", 1).shape == (0, 3)
    assert fill((3, 0), dtype, "columns", 1).shape == (3, 0)


def test_a_vector_is_one_row():
    assert _kinds_of_rows(fill((9,), torch.float32, "rows", 1)[None]) == {"-inf"}
    assert _kinds_of_rows(fill((9,), torch.float32, "columns", 1)[None]) == {"one finite"}


def test_ties_lie_at_the_other_arguments_too():
    case = Case({"x": TensorRecipe((17,), "float32", values="ties", seed=5), "step": 0.25, "flag": True}).at_bounds()
    numbers = case.tensors()["x"].numbers().tolist()
    assert {0.25, -0.25, 0.125, 0.375, 0.5, 1.0} <= set(numbers)
    normal = Case({"x": TensorRecipe((17,), "float32"), "step": 0.25})
    assert normal.at_bounds() is normal


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_faint_numbers_are_small_and_their_squares_are_normal(dtype: torch.dtype):
    numbers = fill((1000,), dtype, "faint", 2).abs().double()
    assert float(numbers.min()) ** 2 >= 0.9 * torch.finfo(dtype).smallest_normal
    assert float(numbers.max()) < 0.5


@pytest.mark.parametrize("kind", ["normal", "mixed", "faint", "ties", "special", "nan", "rows", "small", "last"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int16, torch.bool], ids=str)
def test_what_is_drawn_in_pieces_is_of_the_same_kind(kind: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch):
    whole = fill((40, 50), dtype, kind, 3)
    monkeypatch.setattr("opsmith.subject.values._AT_A_TIME", 300)
    found = fill((40, 50), dtype, kind, 3)
    assert (found.shape, found.dtype, found.is_contiguous()) == (whole.shape, dtype, True)
    assert torch.equal(found.view(torch.uint8), fill((40, 50), dtype, kind, 3).view(torch.uint8))
    # No piece repeats another.
    if kind in ("normal", "mixed", "faint") and dtype is torch.float32:
        assert len(found.unique()) > 1900
    ordered = [
        one.double().nan_to_num(1e9).abs().clamp(1e-30, 1e9).log10().flatten().sort().values for one in (found, whole)
    ]
    assert float((ordered[0] - ordered[1]).abs().median()) < 0.3
    # Only numbers that do not depend on their place are drawn so.
    if kind in ("rows", "last"):
        assert torch.equal(ordered[0], ordered[1])
