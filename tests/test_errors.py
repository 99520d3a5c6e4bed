"""What exceptions say of a value is short, whatever the value is."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import torch

from opsmith.errors import describe


class Untold:
    def __repr__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("abc", "str 'abc'"),
        (None, "NoneType None"),
        (1.5, "float 1.5"),
        ([0.5], "list [0.5]"),
        (torch.zeros(3, 4), "Tensor float32 [3, 4]"),
        (torch.nn.Parameter(torch.zeros(2)), "Parameter float32 [2]"),
        (torch.zeros((), device="meta"), "Tensor float32 []"),
        (numpy.zeros((3, 4)), "ndarray float64 [3, 4]"),
        (numpy.float32(1.5), "float32 float32 []"),
        ([torch.zeros(2), 1], "list [Tensor float32 [2], 1]"),
        (list(range(1_000_000)), "list [0, 1, 2, 3, 4, 5, ...]"),
        (10**30, f"int {10**30}"),
        (10**5000, "int of 16610 bits"),
        ([10**5000], "list [of 16610 bits]"),
        (torch.Tensor, "<class 'torch.Tensor'>"),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, str) else type(value).__name__,
)
def test_a_value_is_described_in_a_line(value: Any, words: str) -> None:
    assert describe(value).endswith(words)


@pytest.mark.parametrize("value", ["x" * 10**6, {n: n for n in range(1000)}, Untold(), [[[[[[1]]]]]], object()])
def test_a_description_is_never_long(value: Any) -> None:
    assert len(describe(value)) < 120
    assert "\n" not in describe(value)
