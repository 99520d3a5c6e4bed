"""Bits of tensors, however they lie in memory."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from opsmith.checker.bits import differences, element_bytes, same_bits


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6, dtype=torch.int32)[4::2],
        torch.arange(4.0)[1::3],
        torch.arange(6.0).reshape(2, 3).t(),
        torch.tensor(2.5, dtype=torch.float64),
        torch.ones(1).expand(3),
        torch.ones(2, dtype=torch.complex64).conj(),
        torch.full((2,), 1j).conj().imag,
        torch.empty(0, 4),
    ],
    ids=lambda tensor: f"{list(tensor.shape)} {list(tensor.stride())} {tensor.dtype}",
)
def test_each_element_has_its_bytes_whatever_the_strides_are(tensor: Tensor) -> None:
    rows = element_bytes(tensor)
    assert rows.shape == (tensor.numel(), tensor.element_size())
    assert bytes(rows.flatten().tolist()) == tensor.resolve_conj().resolve_neg().numpy().tobytes()
    assert same_bits(tensor, tensor.clone())


def test_a_difference_names_the_first_element() -> None:
    one, other = torch.zeros(2, 3), torch.zeros(2, 3)
    other[1, 1] = -0.0
    (found,) = differences({"y": one}, {"y": other})
    assert (found.index, found.count, found.elements) == ((1, 1), 1, 6)
    assert not same_bits(one, other)
