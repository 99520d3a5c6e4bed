"""An operator with the arguments, results and saved tensor of mlp, whose kernels compute nothing."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

import opsmith

_KERNEL = opsmith.native("nothing.cpp")


@opsmith.op(cpu=_KERNEL, cuda=_KERNEL, outputs=("output", "hidden"), saved="hidden", namespace="gradient_floor")
def nothing(
    input: Float[Tensor, "B F"],  # noqa: A002
    weight1: Float[Tensor, "H F"],
    bias1: Float[Tensor, "H"],
    weight2: Float[Tensor, "O H"],
    bias2: Float[Tensor, "O"],
) -> tuple[Float[Tensor, "B O"], Float[Tensor, "B H"]]:
    """What mlp returns; the kernel leaves its results as it has allocated them."""
    hidden = torch.relu(functional.linear(input, weight1, bias1))
    return functional.linear(hidden, weight2, bias2), hidden


@nothing.backward(cpu=_KERNEL, cuda=_KERNEL)
def nothing_backward(
    grad_output: Float[Tensor, "B O"],
    input: Float[Tensor, "B F"],  # noqa: A002
    weight1: Float[Tensor, "H F"],
    bias1: Float[Tensor, "H"],
    weight2: Float[Tensor, "O H"],
    bias2: Float[Tensor, "O"],
    hidden: Float[Tensor, "B H"],
) -> tuple[
    Float[Tensor, "B F"], Float[Tensor, "H F"], Float[Tensor, "H"], Float[Tensor, "O H"], Float[Tensor, "O"]
]: ...
