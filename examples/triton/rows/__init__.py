"""Softmax of rows, whose kernels are written in Triton."""

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith

__all__ = ["softmax"]

# A row is one block, so the block is as large as the row: the first configuration that holds it is taken.
CONFIGS = [
    {"BLOCK": 256, "num_warps": 1, "when": "N <= 256"},
    {"BLOCK": 1024, "num_warps": 4, "when": "N <= 1024"},
    {"BLOCK": 4096, "num_warps": 8, "when": "N <= 4096"},
    {"BLOCK": 16384, "num_warps": 16, "when": "N <= 16384"},
]
MOST = 16384
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@opsmith.op(
    cuda=opsmith.triton("kernels.py:softmax_rows", grid="M", configs=CONFIGS), outputs="y", batch="M", dtypes=DTYPES
)
def softmax(x: Float[Tensor, "M N"], scale: float = 1.0) -> Float[Tensor, "M N"]:
    """The softmax of each row of scale * x, of 16,384 elements at most."""
    if x.shape[1] > MOST:
        raise ValueError(f"softmax(): a row has {MOST:,} elements at most, found {x.shape[1]:,}")
    return torch.softmax(scale * x, dim=1)


@softmax.backward(cuda=opsmith.triton("kernels.py:softmax_rows_backward", grid="M", configs=CONFIGS), dtypes=DTYPES)
def softmax_backward(
    grad_y: Float[Tensor, "M N"], x: Float[Tensor, "M N"], scale: float, y: Float[Tensor, "M N"]
) -> Float[Tensor, "M N"]:
    """The gradient, from the result."""
    return scale * y * (grad_y - (grad_y * y).sum(dim=1, keepdim=True))
