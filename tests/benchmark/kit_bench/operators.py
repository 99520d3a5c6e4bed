"""An operator that is right, and one that is not."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith


@opsmith.op(cpu="kernels.cpp", outputs="y")
def twice(x: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    """Return 2 * x."""
    return 2 * x


@twice.versus("sum")
def twice_by_sum(x: Tensor) -> Tensor:
    """Return 2 * x, as a sum."""
    return x + x


@opsmith.op(cpu="kernels.cpp", outputs="y")
def off(x: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    """Return x + 1; the kernel adds 1.25."""
    return x + 1


@off.versus("add")
def off_by_add(x: Tensor) -> Tensor:
    """Return x + 1 by torch.add."""
    return torch.add(x, 1)
