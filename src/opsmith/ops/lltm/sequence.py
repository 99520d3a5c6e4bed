"""Defines the operator of an LLTM over a whole sequence: all steps of one layer, in one call."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith
from opsmith.ops.lltm.cell import lltm_cell, lltm_gates_backward

__all__ = ["lltm_sequence", "lltm_sequence_backward"]

# The CPU has its own matrix products. On a GPU the .cpp has the products, and the .cu files what lies between them.
_CPU = "sequence_cpu.cpp"
_CUDA = opsmith.native("sequence_gpu.cpp", "scan_forward.cu", "scan_backward.cu", "grid.cu", "sequence_step.cu")


@opsmith.op(
    cpu=opsmith.native(_CPU, entry="lltm_sequence_cpu"),
    cuda=_CUDA,
    outputs=("hiddens", "last_cell", "gates", "cells"),
    saved=("gates", "cells"),
    batch="B",
    autocast="low",
)
def lltm_sequence(
    input: Float[Tensor, "T B I"],  # noqa: A002 -- the name that torch.nn's recurrent modules use
    hidden: Float[Tensor, "B S"],
    cell: Float[Tensor, "B S"],
    weight: Float[Tensor, "3*S S+I"],
    bias: Float[Tensor, "3*S"],
) -> tuple[Float[Tensor, "T B S"], Float[Tensor, "B S"], Float[Tensor, "T B 3*S"], Float[Tensor, "T B S"]]:
    """The hidden states of all steps, and the last cell; `weight` has the columns of `hidden` first, as in `lltm_cell`.

    The last hidden state is the last of the hidden states. For T = 0 there are none, and the cell is returned
    unchanged. The gates' pre-activations and the cells of all steps are kept for the backward.
    """
    state = hidden.shape[1]
    hiddens, gates, cells = [], [], []
    for step in input.unbind(0):
        hidden, cell, gate = lltm_cell.reference(step, hidden, cell, weight, bias)
        hiddens.append(hidden)
        gates.append(gate)
        cells.append(cell)
    return _stack(hiddens, input, state), cell.clone(), _stack(gates, input, 3 * state), _stack(cells, input, state)


@lltm_sequence.backward(cpu=opsmith.native(_CPU, entry="lltm_sequence_backward_cpu"), cuda=_CUDA)
def lltm_sequence_backward(
    grad_hiddens: Float[Tensor, "T B S"],
    grad_last_cell: Float[Tensor, "B S"],
    input: Float[Tensor, "T B I"],  # noqa: A002
    hidden: Float[Tensor, "B S"],
    cell: Float[Tensor, "B S"],
    weight: Float[Tensor, "3*S S+I"],
    bias: Float[Tensor, "3*S"],
    hiddens: Float[Tensor, "T B S"],
    gates: Float[Tensor, "T B 3*S"],
    cells: Float[Tensor, "T B S"],
) -> tuple[
    Float[Tensor, "T B I"], Float[Tensor, "B S"], Float[Tensor, "B S"], Float[Tensor, "3*S S+I"], Float[Tensor, "3*S"]
]:
    """The gradients of an LLTM over a sequence: backwards through the steps, then three products over all of them.

    Only the gradient that goes from one hidden state to the one before needs the steps in their order. `cell` and
    `bias` are here for a second gradient, which goes through the forward's body, as in `lltm_cell_backward`.
    """
    steps, state = input.shape[0], hidden.shape[1]
    weight_hidden, weight_input = weight.split([state, input.shape[2]], dim=1)
    grad_hidden, grad_cell = torch.zeros_like(hidden), grad_last_cell
    grads: list[Tensor] = []
    for t in reversed(range(steps)):
        grad_gate, grad_cell = lltm_gates_backward.reference(
            grad_hiddens[t] + grad_hidden, grad_cell, gates[t], cells[t]
        )
        grad_hidden = grad_gate @ weight_hidden
        grads.append(grad_gate)
    grad_gates = _stack(grads[::-1], input, 3 * state)
    before = torch.cat([hidden.unsqueeze(0), hiddens])[:steps]
    joined = torch.cat([before, input], dim=2).flatten(0, 1)
    return (
        grad_gates @ weight_input,
        grad_hidden,
        grad_cell.clone(),
        grad_gates.flatten(0, 1).t() @ joined,
        grad_gates.sum(dim=(0, 1)),
    )


def _stack(steps: list[Tensor], input: Tensor, columns: int) -> Tensor:  # noqa: A002
    return torch.stack(steps) if steps else input.new_empty(0, input.shape[1], columns)
