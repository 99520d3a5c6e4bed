"""Softmax of rows, whose kernels are written in CUDA C++ and compiled without nvcc."""

from jaxtyping import Float
from torch import Tensor

import opsmith

__all__ = ["softmax"]

CONFIGS = [
    {"THREADS": 32, "when": "N <= 256"},
    {"THREADS": 128, "when": "N <= 2048"},
    {"THREADS": 512},
]


@opsmith.op(
    cuda=opsmith.kernel("kernels.cu:softmax_rows", grid="M", block="THREADS", configs=CONFIGS), outputs="y", batch="M"
)
def softmax(x: Float[Tensor, "M N"], scale: float = 1.0) -> Float[Tensor, "M N"]:
    """The softmax of each row of scale * x."""
    return (scale * x).softmax(dim=1)


@softmax.backward(
    cuda=opsmith.kernel("kernels.cu:softmax_rows_backward", grid="M", block="THREADS", configs=CONFIGS), batch="M"
)
def softmax_backward(
    grad_y: Float[Tensor, "M N"], x: Float[Tensor, "M N"], scale: float, y: Float[Tensor, "M N"]
) -> Float[Tensor, "M N"]:
    """The gradient, from the result."""
    return scale * y * (grad_y - (grad_y * y).sum(dim=1, keepdim=True))
