"""The operator that benchmarks/triton_build.py builds: one Triton kernel, one element type, one configuration."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith


@opsmith.op(
    cuda=opsmith.triton("scaled_kernels.py:scale_rows", grid="M, cdiv(N, BLOCK)", BLOCK=1024, num_warps=4),
    outputs="y",
    dtypes=(torch.float32,),
    namespace="triton_build",
)
def scale_rows(x: Float[Tensor, "M N"], weight: Float[Tensor, "M"], factor: float = 1.0) -> Float[Tensor, "M N"]:
    """Each row of x, times its weight and a factor."""
    return x * weight[:, None] * factor
