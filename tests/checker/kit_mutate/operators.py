"""Small operators in which every fault that changes a result is easily seen."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith


@opsmith.op(cpu="kernels.cpp", outputs="y")
def shifted(x: Float[Tensor, "N"], shift: float = 0.5) -> Float[Tensor, "N"]:
    """Return x + shift where that is above 0, and 0 elsewhere."""
    return torch.relu(x + shift)


@shifted.backward(cpu="kernels.cpp")
def shifted_backward(grad_y: Float[Tensor, "N"], y: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    """Return grad_y where y is above 0, and 0 elsewhere."""
    return grad_y * (y > 0)


@opsmith.op(cpu="kernels.cpp", outputs="y")
def doubled(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    """Return 2 x; the kernel shares a helper with `shifted`, which a fault of its own is not in."""
    return 2 * x
