"""A large call is compared some rows at a time where rows do not depend on each other, and as a whole where they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from judging_kit.candidates import RIGHT, judged
from torch import Tensor
from torch.nn.functional import batch_norm

from opsmith.judging.parts import InParts, form_of, rows_of
from opsmith.judging.refusals import Refusal
from opsmith.judging.trial import Trial

X, Y, W = (torch.arange(144.0).add(begin).sin().reshape(24, 6) for begin in (0, 200, 400))
APART: dict[str, tuple[Callable[..., Any], Sequence[Tensor], tuple[str, ...]]] = {
    "softmax": (lambda a: a.softmax(-1), [X], ("a",)),
    "two with rows": (lambda a, b: (a * b, a.argmax(1)), [X, Y], ("a", "b")),
    "a product with what has no rows": (lambda a, b: a @ b, [X, W[:6]], ("a",)),
    "a product of squares": (lambda a, b: a @ b, [torch.randn(24, 24), torch.randn(24, 24)], ("a",)),
    "a row": (lambda a, b: a + b, [X, torch.randn(1, 6)], ("a",)),
}
TOGETHER: dict[str, tuple[Callable[..., Any], Sequence[Tensor]]] = {
    "a softmax over rows": (lambda a: a.softmax(0), [X]),
    "a running sum": (lambda a: a.cumsum(0), [X]),
    "a norm of all": (lambda a: a / a.norm(), [X]),
    "hardly": (lambda a: a + 1e-9 * a.square().sum(), [X]),
    "statistics of a batch": (lambda a: batch_norm(a, None, None, training=True), [X]),
    "an order of rows": (lambda a: a.flip(0), [X]),
    "a dimension that a single row loses": (lambda a: (a @ a.T[:, :1]).squeeze(), [X]),
    "a dimension that a single row loses, of each": (lambda a: a.exp().squeeze(), [X]),
    "a sum": (lambda a: a.sum(), [X]),
    "a fixed number of rows": (lambda a: a.reshape(24, 3, 2), [X]),
    "one row": (lambda a: a.softmax(-1), [X[:1]]),
    "noise": (lambda a: a + torch.rand_like(a), [X]),
    "no tensor": (lambda: torch.zeros(3), []),
}


def _rows(function: Callable[..., Any], tensors: Sequence[Tensor]) -> Any:
    values = dict(zip("abc", tensors, strict=False))

    def results(given: Mapping[str, Any]) -> list[Tensor]:
        found = function(*given.values())
        return list(found) if isinstance(found, tuple) else [found]

    return rows_of(results, values, tuple(values))


@pytest.mark.parametrize("name", list(APART))
def test_rows_that_do_not_depend_on_each_other(name: str) -> None:
    function, tensors, names = APART[name]
    rows = _rows(function, tensors)
    assert (rows.names, rows.count) == (names, 24)
    found = function(*tensors)
    results = found if isinstance(found, tuple) else (found,)
    read = sum(one.nbytes for one, letter in zip(tensors, "abc", strict=False) if letter in names)
    assert rows.nbytes == (read + sum(one.nbytes for one in results)) // 24
    slices = rows.slices(5 * rows.nbytes)
    assert [len(range(24)[one]) for one in slices] == [5, 5, 5, 5, 4]


@pytest.mark.parametrize("name", list(TOGETHER))
def test_rows_that_do(name: str) -> None:
    assert _rows(*TOGETHER[name]) is None


WRONG = {
    "right": (RIGHT, set(), ""),
    "in half precision": (
        "def normalize(x, w): return (x.half() * w.half()).softmax(-1).float()",
        {Refusal.LOW_PRECISION},
        "of 2048 elements wrong",
    ),
    "wrong in two rows": (
        "def normalize(x, w):\n    y = (x * w).softmax(-1)\n    y[1] += 1\n    y[30, 5] += 1\n    return y\n",
        {Refusal.WRONG_VALUES},
        "; 65 of 2048 elements wrong",
    ),
    "wrong in the last row": (
        "def normalize(x, w):\n    y = (x * w).softmax(-1)\n    y[31, 7] += 1\n    return y\n",
        {Refusal.WRONG_VALUES},
        "output 0[31, 7] is",
    ),
    "without its last row": ("def normalize(x, w): return (x * w).softmax(-1)[:31]", {Refusal.WRONG_SHAPE}, "[31, 64]"),
    "in another type": ("def normalize(x, w): return (x * w).softmax(-1).double()", {Refusal.WRONG_DTYPE}, "float64"),
    "kept": (
        "kept = []\ndef normalize(x, w):\n    kept.append((x * w).softmax(-1))\n    return kept[0]\n",
        {Refusal.CACHED_RESULT},
        "earlier call",
    ),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_a_verdict_is_the_same_in_parts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, refusals, words = WRONG[name]
    compared: list[int] = []

    def expected(trial: Trial, values: Any, case: Any = None) -> Any:
        found = usual(trial, values, case)
        compared.append(len(found.slices) if isinstance(found, InParts) else 0)
        assert form_of(found)[0].shape == (32, 64)
        return found

    usual = Trial.expected
    monkeypatch.setattr(Trial, "expected", expected)
    monkeypatch.setattr("opsmith.judging.trial._PART_BYTES", 5 * 2 * 64 * 4)
    judgement = judged(tmp_path, text)
    assert set(judgement.refusals) == refusals
    assert all(words in one.message for one in judgement.as_posed.charges)
    assert set(compared) == {7}
