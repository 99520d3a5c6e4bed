"""Defines the operators of an LLTM step: its pointwise part, and the whole step with the matrix product."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

import opsmith

__all__ = ["lltm_cell", "lltm_cell_backward", "lltm_gates", "lltm_gates_backward"]


@opsmith.op(cpu="gates.cpp", cuda="gates.cu", outputs=("hidden", "new_cell"), batch="B")
def lltm_gates(
    gates: Float[Tensor, "B 3*S"], cell: Float[Tensor, "B S"]
) -> tuple[Float[Tensor, "B S"], Float[Tensor, "B S"]]:
    """The pointwise part of an LLTM step: new hidden state and new cell from the gates' pre-activations (i, o, c)."""
    i, o, c = gates.chunk(3, dim=1)
    new_cell = cell + functional.elu(c) * torch.sigmoid(i)
    return torch.tanh(new_cell) * torch.sigmoid(o), new_cell


@lltm_gates.backward(cpu="gates.cpp", cuda="gates.cu")
def lltm_gates_backward(
    grad_hidden: Float[Tensor, "B S"],
    grad_new_cell: Float[Tensor, "B S"],
    gates: Float[Tensor, "B 3*S"],
    new_cell: Float[Tensor, "B S"],
) -> tuple[Float[Tensor, "B 3*S"], Float[Tensor, "B S"]]:
    """The gradients of gates and cell; the gates are computed again from what the forward had, so nothing else is saved."""
    i, o, c = gates.chunk(3, dim=1)
    input_gate, output_gate, tanh_cell = torch.sigmoid(i), torch.sigmoid(o), torch.tanh(new_cell)
    grad_cell = grad_new_cell + grad_hidden * output_gate * (1 - tanh_cell * tanh_cell)
    # The clamp keeps exp finite where the other branch is taken: an inf there would turn into NaN in a further gradient.
    elu_slope = torch.where(c > 0, torch.ones_like(c), torch.exp(c.clamp(max=0)))
    grad_i = grad_cell * functional.elu(c) * input_gate * (1 - input_gate)
    grad_o = grad_hidden * tanh_cell * output_gate * (1 - output_gate)
    grad_c = grad_cell * input_gate * elu_slope
    return torch.cat([grad_i, grad_o, grad_c], dim=1), grad_cell


# Two files, because each device has its own matrix products. One library holds both, so their functions' names
# differ. On a GPU the kernels are separate: nvcc does not compile framework headers.
_CPU = "cell_cpu.cpp"
_CUDA = opsmith.native("cell_gpu.cpp", "cell_forward.cu", "cell_backward.cu", "cell_gates.cu")


@opsmith.op(
    cpu=opsmith.native(_CPU, entry="lltm_cell_cpu"),
    cuda=_CUDA,
    outputs=("new_hidden", "new_cell", "gates"),
    saved="gates",
    batch="B",
    autocast="low",
)
def lltm_cell(
    input: Float[Tensor, "B I"],  # noqa: A002 -- the name that torch.nn's cells use
    hidden: Float[Tensor, "B S"],
    cell: Float[Tensor, "B S"],
    weight: Float[Tensor, "3*S S+I"],
    bias: Float[Tensor, "3*S"],
) -> tuple[Float[Tensor, "B S"], Float[Tensor, "B S"], Float[Tensor, "B 3*S"]]:
    """One LLTM step: new hidden state and new cell. `weight` has the columns of `hidden` first, then those of `input`."""
    joined = torch.cat([hidden, input], dim=1)
    gates = functional.linear(joined, weight, bias)
    new_hidden, new_cell = lltm_gates.reference(gates, cell)
    return new_hidden, new_cell, gates


@lltm_cell.backward(cpu=opsmith.native(_CPU, entry="lltm_cell_backward_cpu"), cuda=_CUDA)
def lltm_cell_backward(
    grad_new_hidden: Float[Tensor, "B S"],
    grad_new_cell: Float[Tensor, "B S"],
    input: Float[Tensor, "B I"],  # noqa: A002
    hidden: Float[Tensor, "B S"],
    cell: Float[Tensor, "B S"],
    weight: Float[Tensor, "3*S S+I"],
    bias: Float[Tensor, "3*S"],
    gates: Float[Tensor, "B 3*S"],
    new_cell: Float[Tensor, "B S"],
) -> tuple[
    Float[Tensor, "B I"], Float[Tensor, "B S"], Float[Tensor, "B S"], Float[Tensor, "3*S S+I"], Float[Tensor, "3*S"]
]:
    """The gradients of an LLTM step: the pointwise part's, then three matrix products.

    `cell` and `bias` are not needed for that. They are here because a second gradient goes through the forward's body,
    which needs every input; keeping them costs nothing, for both live elsewhere.
    """
    grad_gates, grad_cell = lltm_gates_backward.reference(grad_new_hidden, grad_new_cell, gates, new_cell)
    weight_hidden, weight_input = weight.split([hidden.shape[1], input.shape[1]], dim=1)
    return (
        grad_gates @ weight_input,
        grad_gates @ weight_hidden,
        grad_cell,
        grad_gates.t() @ torch.cat([hidden, input], dim=1),
        grad_gates.sum(dim=0),
    )
