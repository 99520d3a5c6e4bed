"""Two operators that are right, and four with one defect each."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith


@opsmith.op(cpu="kernels.cpp", outputs="y")
def right(x: Float[Tensor, "B N"], factor: float = 2.0) -> Float[Tensor, "B N"]:
    """Return x * factor."""
    return x * factor


@opsmith.op(cpu="kernels.cpp", outputs="y")
def wrong(x: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    """Return x + 1; the kernel adds 1.25."""
    return x + 1


@opsmith.op(cpu="kernels.cpp", outputs="y")
def wrong_tail(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    """Return x + 1; the kernel forgets what follows the last whole block of 8."""
    return x + 1


@opsmith.op(cpu="kernels.cpp", outputs="y")
def crashing(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    """Return -x; the kernel writes to address 0 for 64 elements and more."""
    return -x


@opsmith.op(cpu="kernels.cpp", outputs="y")
def hanging(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    """Return 2 * x; the kernel waits for ever for a NaN to become a number."""
    return 2 * x


@opsmith.op(cpu="kernels.cpp", outputs="y")
def running_sum(x: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    """Return the running sums of the rows; the body loops over a size, and is the gradient too."""
    sums = [x[:, 0]]
    for column in range(1, x.shape[1]):
        sums.append(sums[-1] + x[:, column])
    return torch.stack(sums, dim=1)
