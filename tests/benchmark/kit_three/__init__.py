"""An operator that is built soon: one element type, one kernel, on the CPU."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith


@opsmith.op(cpu="twice.cpp", dtypes=[torch.float32])
def twice(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    """2 x."""
    return 2 * x


@opsmith.op
def body_alone(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    """Without a kernel, so without a build."""
    return 2 * x
