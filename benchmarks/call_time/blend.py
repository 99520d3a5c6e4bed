"""The operator with eight arguments for benchmarks/call_time.py: four tensors, two ints, a float and a keyword."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

import opsmith


@opsmith.op(cpu="blend.cpp", cuda="blend.cu", namespace="call_time")
def blend(
    x: Float[Tensor, "N"],
    y: Float[Tensor, "N"],
    low: Float[Tensor, "N"],
    high: Float[Tensor, "N"],
    times: int,
    offset: int,
    weight: float,
    *,
    bias: float = 0.0,
) -> Float[Tensor, "N"]:
    """Return weight * x + times * y + bias, held between low and high, plus offset."""
    return (weight * x + times * y + bias).maximum(low).minimum(high) + offset
