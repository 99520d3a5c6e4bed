"""Defines add2, the sum of two tensors: the smallest possible operator."""

from __future__ import annotations

from jaxtyping import Real
from torch import Tensor

import opsmith

__all__ = ["add2"]


@opsmith.op(cpu="add2.cpp", cuda="add2.cu", passes_gradient={"a": "out", "b": "out"})
def add2(a: Real[Tensor, "*shape"], b: Real[Tensor, "*shape"]) -> Real[Tensor, "*shape"]:
    """Return a + b, element by element.

    a, b and the result have one shape and one element type (float16, bfloat16, float32, float64, or an integer). There
    is no broadcasting: different sizes raise ShapeError. `add2(*torch.broadcast_tensors(a, b))` is PyTorch's a + b,
    with gradients that are summed to the sizes of a and of b; expanded tensors are copied.
    """
    return a + b
