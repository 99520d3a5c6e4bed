"""The softmax of examples/triton/rows with a kernel in CUDA: what a call of it costs on the host, benchmarks/triton_calls.py
compares."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith


@opsmith.op(cuda="softmax_cuda.cu", outputs="y", batch="M", dtypes=(torch.float32,), namespace="triton_calls")
def softmax_cuda(x: Float[Tensor, "M N"], scale: float = 1.0) -> Float[Tensor, "M N"]:
    """The softmax of each row of scale * x."""
    return torch.softmax(scale * x, dim=1)
