"""Defines LLTM modules, called like PyTorch's own recurrent ones: one step, and layers over whole sequences."""

from __future__ import annotations

import math
import warnings
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence

from opsmith.ops.lltm.cell import lltm_cell
from opsmith.ops.lltm.layer import State, lltm, run_packed

__all__ = ["LLTM", "LLTMCell"]

Device = torch.device | str | None


class _LLTMBase(nn.Module):
    """What a cell and layers share: their sizes, and how parameters are made and drawn."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        if input_size < 1 or hidden_size < 1:
            raise ValueError(f"input_size and hidden_size must be positive, found {input_size} and {hidden_size}")
        self.input_size, self.hidden_size = input_size, hidden_size

    def reset_parameters(self) -> None:
        """Draw new parameters, as in the tutorial: uniform in +-1/sqrt(S)."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def _add_parameters(self, suffix: str, inputs: int, bias: bool, device: Device, dtype: torch.dtype | None) -> None:
        rows = 3 * self.hidden_size
        weight = nn.Parameter(torch.empty((rows, self.hidden_size + inputs), device=device, dtype=dtype))
        self.register_parameter(f"weight{suffix}", weight)
        offset = nn.Parameter(torch.empty(rows, device=device, dtype=dtype)) if bias else None
        self.register_parameter(f"bias{suffix}", offset)

    def _parameters_of(self, suffix: str) -> tuple[Tensor, Tensor]:
        weight, bias = getattr(self, f"weight{suffix}"), getattr(self, f"bias{suffix}")
        return weight, weight.new_zeros(weight.shape[0]) if bias is None else bias


class LLTMCell(_LLTMBase):
    """One LLTM step, called as `torch.nn.LSTMCell` is.

    cell(input, (hidden, cell)) returns the new (hidden, cell), each [B, S], or [S] where the input has no batch; the
    state is zero where it is not given. The parameters are `weight` [3*S, S+I], with the columns of the hidden state
    first, and `bias` [3*S], which is None with bias=False.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size)
        self._add_parameters("", input_size, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor, state: State | None = None) -> State:  # noqa: A002
        """Return (hidden, cell) after the step; `input` is [B, I] or [I]."""
        if input.dim() not in {1, 2}:
            raise ValueError(f"LLTMCell takes an input with 1 or 2 dimensions, found {input.dim()}")
        if input.dim() == 1:
            batch = None if state is None else (state[0].unsqueeze(0), state[1].unsqueeze(0))
            hidden, cell = self(input.unsqueeze(0), batch)
            return hidden.squeeze(0), cell.squeeze(0)
        weight, bias = self._parameters_of("")
        if state is None:
            zeros = weight.new_zeros(input.shape[0], self.hidden_size)
            state = zeros, zeros
        new_hidden, new_cell = lltm_cell(input, *state, weight, bias)
        return new_hidden, new_cell

    def extra_repr(self) -> str:
        """What print(module) shows in the parentheses."""
        return f"{self.input_size}, {self.hidden_size}" + (", bias=False" if self.bias is None else "")


class LLTM(_LLTMBase):
    """Layers of LLTMs over sequences, called as `torch.nn.LSTM` is.

    lltm(input, (h0, c0)) returns the hidden states of the last layer and the last (hn, cn) of all layers. With L
    layers, D directions and S units:

        input   [T, B, I], with batch_first [B, T, I]; without a batch [T, I]; or a PackedSequence
        h0, c0  [D*L, B, S], without a batch [D*L, S]; zero where they are not given
        output  [T, B, D*S], laid out as the input is: the forward direction's hidden states come first
        hn, cn  as h0

    The parameters are `weight_l{layer}` [3*S, S + inputs] and `bias_l{layer}` [3*S], those of the other direction end
    in `_reverse`. As in `torch.nn.LSTM` `dropout` is applied to what one layer gives to the next. There are no
    projections: a `proj_size` other than 0 raises ValueError, as sizes that do not fit do.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size)
        if num_layers < 1:
            raise ValueError(f"num_layers must be positive, found {num_layers}")
        if isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(f"dropout is the probability of dropping an element, from 0 to 1, found {dropout}")
        if proj_size != 0:
            raise ValueError(f"an LLTM has no projections: proj_size must be 0, found {proj_size}")
        if dropout > 0 and num_layers == 1:
            warnings.warn(f"dropout={dropout} acts between layers, and there is one layer only", stacklevel=2)
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional = float(dropout), bidirectional
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else len(self._directions) * hidden_size
            for direction in self._directions:
                self._add_parameters(f"_l{layer}{direction}", inputs, bias, device, dtype)
        self.reset_parameters()

    @property
    def _directions(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    @overload
    def forward(self, input: Tensor, state: State | None = None) -> tuple[Tensor, State]: ...
    @overload
    def forward(self, input: PackedSequence, state: State | None = None) -> tuple[PackedSequence, State]: ...
    def forward(self, input: Any, state: State | None = None) -> tuple[Any, State]:  # noqa: A002
        """Return the hidden states and the last state; see the class for shapes."""
        if isinstance(input, PackedSequence):
            return self._run_packed(input, state)
        if input.dim() not in {2, 3}:
            raise ValueError(f"LLTM takes an input with 2 or 3 dimensions, found {input.dim()}")
        if input.dim() == 2:
            batch = None if state is None else (state[0].unsqueeze(1), state[1].unsqueeze(1))
            output, (hidden, cell) = self._run_layers(input.unsqueeze(1), 1, batch)
            return output.squeeze(1), (hidden.squeeze(1), cell.squeeze(1))
        steps = input.transpose(0, 1) if self.batch_first else input
        output, last = self._run_layers(steps, steps.shape[1], state)
        return output.transpose(0, 1) if self.batch_first else output, last

    def _run_packed(self, packed: PackedSequence, state: State | None) -> tuple[PackedSequence, State]:
        """A packed sequence holds its sequences sorted by length; states come and go in the caller's order."""
        data, batch_sizes, sorted_indices, unsorted_indices = packed
        if state is not None and sorted_indices is not None:
            state = state[0].index_select(1, sorted_indices), state[1].index_select(1, sorted_indices)
        output, last = self._run_layers(data, int(batch_sizes[0]), state, batch_sizes)
        if unsorted_indices is not None:
            last = last[0].index_select(1, unsorted_indices), last[1].index_select(1, unsorted_indices)
        return PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices), last

    def _run_layers(
        self, steps: Tensor, batch: int, state: State | None, batch_sizes: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Run all layers over [T, B, I], or over a packed sequence's data [N, I]."""
        if steps.shape[-1] != self.input_size:
            raise ValueError(f"the input has {steps.shape[-1]} features, and input_size is {self.input_size}")
        first_hidden, first_cell = self._first_state(batch, state)
        hiddens: list[Tensor] = []
        cells: list[Tensor] = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in self._directions:
                index = len(hiddens)
                first = first_hidden[index], first_cell[index]
                parameters = self._parameters_of(f"_l{layer}{direction}")
                reverse = direction == "_reverse"
                if batch_sizes is None:
                    output, (hidden, cell) = lltm(steps, first, *parameters, reverse=reverse)
                else:
                    output, (hidden, cell) = run_packed(steps, batch_sizes, first, *parameters, reverse=reverse)
                outputs.append(output)
                hiddens.append(hidden)
                cells.append(cell)
            steps = torch.cat(outputs, dim=-1) if self.bidirectional else outputs[0]
            if self.dropout and layer < self.num_layers - 1:
                steps = functional.dropout(steps, self.dropout, self.training)
        return steps, (torch.stack(hiddens), torch.stack(cells))

    def _first_state(self, batch: int, state: State | None) -> State:
        shape = (self.num_layers * len(self._directions), batch, self.hidden_size)
        if state is None:
            zeros = self._parameters_of("_l0")[0].new_zeros(shape)
            return zeros, zeros
        for name, found in zip(("h0", "c0"), state, strict=True):
            if found.shape != shape:
                raise ValueError(
                    f"{name} is {list(found.shape)}, but num_layers * directions, batch, hidden_size are {list(shape)}"
                )
        return state

    def extra_repr(self) -> str:
        """What print(module) shows in the parentheses: the sizes, and what is not as by default."""
        defaults = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False}
        changed = [f"{name}={getattr(self, name)}" for name, value in defaults.items() if getattr(self, name) != value]
        return ", ".join([str(self.input_size), str(self.hidden_size), *changed])
