"""Holds lltm_sequence to a loop over the reference of lltm_cell: values, gradients of both orders, no steps at all."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from opsmith.ops.lltm import lltm_cell, lltm_sequence

pytestmark = pytest.mark.compile

# Steps, batch, input and state.
SIZES = [(0, 3, 4, 5), (1, 1, 1, 1), (3, 0, 4, 5), (3, 2, 4, 5), (5, 7, 3, 9)]


def make(steps: int, batch: int, inputs: int, state: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Arguments of lltm_sequence whose gates are of order 1."""
    torch.manual_seed(steps * 1_000_000 + batch * 10_000 + inputs * 100 + state)
    shapes = [(steps, batch, inputs), (batch, state), (batch, state), (3 * state, state + inputs), (3 * state,)]
    tensors = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    tensors[3] /= (state + inputs) ** 0.5
    return [tensor.to(dtype) for tensor in tensors]


def loop(inputs: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """What lltm_sequence returns, by PyTorch alone."""
    hiddens = [hidden[:0]]
    for step in inputs:
        hidden, cell = lltm_cell.reference(step, hidden, cell, weight, bias)[:2]
        hiddens.append(hidden)
    return torch.cat(hiddens).view(len(inputs), *hidden.shape), cell


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_agrees_with_a_loop_of_cells(size: tuple[int, int, int, int]) -> None:
    arguments = [argument.requires_grad_() for argument in make(*size)]
    found, wanted = lltm_sequence(*arguments), loop(*arguments)
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs)
    outer = [torch.randn_like(output) for output in wanted]
    for ours, theirs in zip(
        torch.autograd.grad(found, arguments, outer),
        torch.autograd.grad(wanted, arguments, outer, allow_unused=True, materialize_grads=True),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("size", [(0, 2, 3, 4), (3, 2, 3, 4)], ids=str)
def test_gradients_of_first_and_second_order(size: tuple[int, int, int, int]) -> None:
    arguments = [argument.requires_grad_() for argument in make(*size)]
    assert torch.autograd.gradcheck(lltm_sequence, arguments)
    assert torch.autograd.gradgradcheck(lltm_sequence, arguments)
