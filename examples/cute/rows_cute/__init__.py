"""Two operators whose GPU kernels are written in CuTe DSL, NVIDIA's language for kernels in Python."""

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith

__all__ = ["scale", "softmax"]

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
# 16 bytes of a float32 at a time where that divides the tensor, which begins at a multiple of 16 bytes.
CONFIGS = [{"VALUES": 4, "when": "n % 4 == 0"}, {"VALUES": 1}]


@opsmith.op(cuda=opsmith.cute("kernels.py:scale_all", configs=CONFIGS), outputs="y", dtypes=DTYPES)
def scale(x: Float[Tensor, "*n"], factor: float) -> Float[Tensor, "*n"]:
    """Every value times a factor."""
    return x * factor


@scale.backward(cuda=opsmith.cute("kernels.py:scale_all_backward", configs=CONFIGS), outputs="grad_x", dtypes=DTYPES)
def scale_backward(grad_y: Float[Tensor, "*n"], factor: float) -> Float[Tensor, "*n"]:
    """The gradient: that of the result times the factor."""
    return grad_y * factor


@opsmith.op(cuda=opsmith.cute("kernels.py:softmax_rows"), outputs="y", batch="M", dtypes=DTYPES)
def softmax(x: Float[Tensor, "M N"], scale: float = 1.0) -> Float[Tensor, "M N"]:
    """The softmax of each row of scale * x."""
    return (scale * x).softmax(dim=1)


@softmax.backward(cuda=opsmith.cute("kernels.py:softmax_rows_backward"), outputs="grad_x", batch="M", dtypes=DTYPES)
def softmax_backward(
    grad_y: Float[Tensor, "M N"], x: Float[Tensor, "M N"], scale: float, y: Float[Tensor, "M N"]
) -> Float[Tensor, "M N"]:
    """The gradient, from the result."""
    return scale * y * (grad_y - (grad_y * y).sum(dim=1, keepdim=True))
