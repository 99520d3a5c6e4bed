"""Loads the library without opsmith and checks the operator: python check.py build/opsmith/lltm_tutorial/lltm_tutorial.so"""

from __future__ import annotations

import sys

import torch


def main(library: str) -> None:
    """Compare values with PyTorch's own functions and gradients with finite differences."""
    torch.ops.load_library(library)
    lltm = torch.ops.lltm_tutorial.lltm

    torch.manual_seed(0)
    batch, features, state = 4, 3, 5
    shapes = [(batch, features), (3 * state, state + features), (3 * state,), (batch, state), (batch, state)]
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    torch.testing.assert_close(lltm(*inputs), reference(*inputs))
    torch.autograd.gradcheck(lltm, inputs)
    torch.autograd.gradgradcheck(lltm, inputs)

    # All weights 0: the gates are the bias. At c = 0 elu's slope is 1; at c = 1000 exp would overflow.
    for c in (0.0, 89.0, 1000.0):
        bias = torch.tensor([0.0, 0.0, c], requires_grad=True)
        zeros = torch.zeros(1, 1)
        lltm(zeros, torch.zeros(3, 2), bias, zeros, zeros)[1].sum().backward()
        expected = torch.tensor([c / 4, 0.0, 0.5])  # sigmoid(0) = 1/2, and its slope is 1/4
        torch.testing.assert_close(bias.grad, expected)
    print("torch.ops.lltm_tutorial.lltm: values and gradients are right")


def reference(
    step: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    i, o, c = torch.nn.functional.linear(torch.cat([hidden, step], 1), weight, bias).chunk(3, 1)
    new_cell = cell + torch.nn.functional.elu(c) * torch.sigmoid(i)
    return torch.tanh(new_cell) * torch.sigmoid(o), new_cell


if __name__ == "__main__":
    main(sys.argv[1])
