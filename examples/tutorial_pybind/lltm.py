"""An LLTM cell around the extension module lltm_cpp: the C++ functions made differentiable, and an nn.Module."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

# isort: split
import lltm_cpp  # after torch, which brings the libraries that it needs into the process


class LLTMFunction(torch.autograd.Function):
    """One step, with the gradient that lltm.cpp computes. A gradient of that gradient is refused."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, step: Tensor, weight: Tensor, bias: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor]:
        new_hidden, new_cell, x, gates = lltm_cpp.forward(step, weight, bias, hidden, cell)
        ctx.save_for_backward(x, gates, new_cell, weight)
        return new_hidden, new_cell

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_hidden: Tensor, grad_cell: Tensor) -> tuple[Tensor, ...]:
        return tuple(lltm_cpp.backward(grad_hidden, grad_cell, *ctx.saved_tensors))


class LLTM(nn.Module):
    """An LLTM cell: module(step [B, I], (hidden, cell)) returns the new (hidden, cell), each [B, S]."""

    def __init__(self, input_size: int, state_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(3 * state_size, state_size + input_size))
        self.bias = nn.Parameter(torch.empty(3 * state_size))
        bound = 1 / math.sqrt(state_size)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, step: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return LLTMFunction.apply(step, self.weight, self.bias, *state)


def check() -> None:
    """Compare the gradient with finite differences, and look at the gates that trip up a careless one."""
    torch.manual_seed(0)
    batch, features, state = 4, 3, 5
    model = LLTM(features, state).double()
    names = [(batch, features), model.weight.shape, model.bias.shape, (batch, state), (batch, state)]
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in names]
    torch.autograd.gradcheck(LLTMFunction.apply, inputs)

    # All weights 0: the gates are the bias. At c = 0 elu's slope is 1; at c = 1000 exp would overflow.
    for c in (0.0, 89.0, 1000.0):
        bias = torch.tensor([0.0, 0.0, c], requires_grad=True)
        zeros = torch.zeros(1, 1)
        _, cell = LLTMFunction.apply(zeros, torch.zeros(3, 2), bias, zeros, zeros)
        cell.sum().backward()
        expected = torch.tensor([c / 4, 0.0, 0.5])  # sigmoid(0) = 1/2, and its slope is 1/4
        torch.testing.assert_close(bias.grad, expected)
    print(f"lltm_cpp ({lltm_cpp.__file__}): the gradients are right")


if __name__ == "__main__":
    check()
