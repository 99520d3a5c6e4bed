"""Integers that a task's calls do not have are not asked for where nothing says that they are taken."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from opsmith.judging.api import judge
from opsmith.judging.integers import has_offsets, ranges_of
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Judgement


def _segments(offsets: Tensor, x: Tensor) -> Tensor:
    return torch.stack([x[a:b].sum(0) for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)])


def _sparse(rows: Tensor, columns: Tensor, numbers: Tensor, x: Tensor) -> Tensor:
    return torch.sparse_csr_tensor(rows, columns, numbers, (len(rows) - 1, len(x))) @ x


def _divided(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return a // b, a % b


def _looked_up(table: Tensor, index: Tensor) -> Tensor:
    return table[index]


def _encoded(positions: Tensor) -> Tensor:
    rates = torch.exp(torch.arange(0, 16).float() * (-9.2 / 16))
    return torch.sin(positions[:, None] * rates)


OFFSETS = torch.tensor([0, 3, 3, 7, 10])
HONEST: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...], str]] = {
    "segments between offsets": (
        _segments,
        (OFFSETS, torch.randn(10, 4)),
        "def _segments(offsets, x):\n"
        "    segment = torch.searchsorted(offsets[1:], torch.arange(len(x)), right=True)\n"
        "    return x.new_zeros(len(offsets) - 1, x.shape[1]).index_add_(0, segment, x)\n",
    ),
    "a sparse matrix, whose columns nobody looks at": (
        _sparse,
        (torch.tensor([0, 2, 3, 5]), torch.tensor([0, 2, 1, 0, 2]), torch.randn(5), torch.randn(3, 4)),
        "def _sparse(rows, columns, numbers, x):\n"
        "    row = torch.repeat_interleave(torch.arange(len(rows) - 1), rows.diff())\n"
        "    return x.new_zeros(len(rows) - 1, x.shape[1]).index_add_(0, row, numbers[:, None] * x[columns])\n",
    ),
    "divisors above zero": (
        _divided,
        (torch.randint(-100, 100, (64,)), torch.randint(1, 10, (64,))),
        "def _divided(a, b):\n"
        "    quotient = torch.div(a, b, rounding_mode='trunc')\n"
        "    quotient = quotient - (quotient * b > a).long()\n    return quotient, a - quotient * b\n",
    ),
    "angles in another precision": (
        _encoded,
        (torch.randint(0, 4000, (64,)),),
        "def _encoded(positions):\n    rates = torch.exp(torch.arange(0, 16).double() * (-9.2 / 16))\n"
        "    return torch.sin(positions[:, None] * rates).float()\n",
    ),
}


def _judged(folder: Path, function: Callable[..., Any], example: tuple[Tensor, ...], text: str) -> Judgement:
    candidate = folder / "candidate.py"
    candidate.write_text(f"import torch\n\n{text}")
    return judge(function, candidate, examples=[example], time=False, threads=1, seconds=12.0)


@pytest.mark.slow("asks all properties")
@pytest.mark.parametrize("name", HONEST)
def test_who_relies_on_the_integers_of_a_task_is_accepted(name: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():  # those of a reference are not the reader's
        warnings.simplefilter("error")
        judgement = _judged(tmp_path, *HONEST[name])
    states = (judgement.as_posed.state, judgement.as_operator.state)
    assert states == ("accepted", "accepted"), str(judgement)


@pytest.mark.slow("asks all properties")
def test_an_index_beyond_those_of_the_task_is_asked_of_a_larger_table(tmp_path: Path) -> None:
    text = "def _looked_up(table, index):\n    return table[index.clamp(max=49)]\n"
    judgement = _judged(tmp_path, _looked_up, (torch.randn(50, 6), torch.randint(0, 50, (33,))), text)
    assert judgement.ok
    assert {charge.refusal for charge in judgement.as_operator.charges} == {Refusal.WRONG_AT_OTHER_SIZES}


def test_what_integers_say_of_others() -> None:
    first, second = torch.tensor([3, 1, 2, 5, 3]), torch.tensor([[7, -1]])
    calls = [{"x": torch.ones(3), "i": first}, {"x": torch.ones(3), "i": second, "mask": torch.ones(4) > 0}]
    assert ranges_of(calls) == {"i": (-1, 7)}
    assert not has_offsets(calls)
    assert has_offsets([{"i": [first, OFFSETS]}])
    assert not has_offsets([{"i": torch.ones(9, dtype=torch.int64)}])
    assert not has_offsets([{"i": first.to(torch.uint8)}])
    assert ranges_of([{"i": torch.tensor([9, 65535], dtype=torch.uint16)}]) == {"i": (9, 65535)}
