"""LLTM as modules: one step, and a whole sequence."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from opsmith.ops.lltm.cell import lltm_cell

__all__ = ["LLTM", "LLTMCell", "lltm"]

State = tuple[Tensor, Tensor]


def lltm(input: Tensor, state: State, weight: Tensor, bias: Tensor) -> tuple[Tensor, State]:  # noqa: A002
    """Run an LLTM over a sequence: return the hidden states [T, B, S] and the last (hidden, cell), each [B, S].

    `input` is [T, B, I], `weight` [3*S, S+I] with the columns of the hidden state first, `bias` [3*S]. For T = 0 the
    state is returned as it came.
    """
    hidden, cell = state
    steps = []
    for step in input.unbind(0):
        hidden, cell = lltm_cell(step, hidden, cell, weight, bias)
        steps.append(hidden)
    outputs = torch.stack(steps) if steps else input.new_empty(0, *hidden.shape)
    return outputs, (hidden, cell)


class _LLTMBase(nn.Module):
    """The parameters that a cell and a sequence share, initialised as in the tutorial: uniform in +-1/sqrt(S)."""

    def __init__(
        self,
        input_size: int,
        state_size: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if input_size < 1 or state_size < 1:
            raise ValueError(f"input_size and state_size must be positive, found {input_size} and {state_size}")
        self.input_size, self.state_size = input_size, state_size
        shape = (3 * state_size, state_size + input_size)
        self.weight = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(3 * state_size, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        bound = 1.0 / math.sqrt(self.state_size)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def extra_repr(self) -> str:
        """What print(module) shows in the parentheses."""
        return f"{self.input_size}, {self.state_size}"

    def _initial(self, batch: int) -> State:
        zeros = self.weight.new_zeros(batch, self.state_size)
        return zeros, zeros


class LLTMCell(_LLTMBase):
    """One LLTM step, called as `torch.nn.LSTMCell` is.

    cell(input, (hidden, cell)) returns the new (hidden, cell), each [B, S]; the state is zero where it is not given.
    """

    def forward(self, input: Tensor, state: State | None = None) -> State:  # noqa: A002
        """Return (hidden, cell) after the step; `input` is [B, I]."""
        hidden, cell = self._initial(input.shape[0]) if state is None else state
        new_hidden, new_cell = lltm_cell(input, hidden, cell, self.weight, self.bias)
        return new_hidden, new_cell


class LLTM(_LLTMBase):
    """An LLTM over a sequence, called as a one-layer `torch.nn.LSTM` is.

    lltm(input, (hidden, cell)) returns the hidden states of all steps [T, B, S] (or [B, T, S] with `batch_first`) and the
    last (hidden, cell), each [B, S]; the state is zero where it is not given.
    """

    def __init__(
        self,
        input_size: int,
        state_size: int,
        *,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, state_size, device=device, dtype=dtype)
        self.batch_first = batch_first

    def forward(self, input: Tensor, state: State | None = None) -> tuple[Tensor, State]:  # noqa: A002
        """Return the hidden states and the last state; `input` is [T, B, I], or [B, T, I] with `batch_first`."""
        if input.dim() != 3:
            raise ValueError(f"LLTM takes a batch of sequences with 3 dimensions, found {input.dim()}")
        steps = input.transpose(0, 1) if self.batch_first else input
        outputs, last = lltm(steps, state or self._initial(steps.shape[1]), self.weight, self.bias)
        return outputs.transpose(0, 1) if self.batch_first else outputs, last
