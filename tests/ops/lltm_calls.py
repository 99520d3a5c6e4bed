"""Calls of LLTM's operators, for their tests on the CPU and on a GPU: arguments, a loop over the cell, gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from opsmith.ops.lltm import lltm_cell

__all__ = ["cell_arguments", "gradients", "loop", "sequence_arguments"]


def cell_arguments(
    batch: int, inputs: int, state: int, dtype: torch.dtype = torch.float64, device: str = "cpu"
) -> list[Tensor]:
    """Arguments of lltm_cell whose gates are of order 1, the same on every device."""
    return _arguments((batch, inputs), batch, state, dtype, device)


def sequence_arguments(
    steps: int, batch: int, inputs: int, state: int, dtype: torch.dtype = torch.float64, device: str = "cpu"
) -> list[Tensor]:
    """Arguments of lltm_sequence, likewise."""
    return _arguments((steps, batch, inputs), batch, state, dtype, device)


def _arguments(shape: tuple[int, ...], batch: int, state: int, dtype: torch.dtype, device: str) -> list[Tensor]:
    columns = state + shape[-1]
    shapes = [shape, (batch, state), (batch, state), (3 * state, columns), (3 * state,)]
    seed = sum(size * 100**place for place, size in enumerate([state, *reversed(shape)]))
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(size, generator=generator, dtype=torch.float64) for size in shapes]
    tensors[3] /= columns**0.5
    return [tensor.to(device, dtype) for tensor in tensors]


def loop(inputs: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """What lltm_sequence returns, by PyTorch alone."""
    hiddens = [hidden[:0]]
    for step in inputs:
        hidden, cell = lltm_cell.reference(step, hidden, cell, weight, bias)[:2]
        hiddens.append(hidden)
    return torch.cat(hiddens).view(len(inputs), *hidden.shape), cell


def gradients(
    function: Callable[..., Sequence[Tensor]],
    arguments: Sequence[Tensor],
    outer: Sequence[Tensor],
    *,
    unused: bool = False,
) -> tuple[Tensor, ...]:
    """The gradients of all arguments. With `unused` one that the results do not depend on has zeros, as in a loop of no
    steps; without it that is an error.
    """
    leaves = [argument.detach().requires_grad_() for argument in arguments]
    return torch.autograd.grad(function(*leaves), leaves, outer, allow_unused=unused, materialize_grads=unused)
