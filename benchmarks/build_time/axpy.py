"""The operator that benchmarks/build_time.py builds: a one-line kernel."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

import opsmith


@opsmith.op(cpu="axpy.cpp", cuda="axpy.cu", namespace="build_time")
def axpy(a: float, x: Float[Tensor, "N"], y: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    """Return a * x + y."""
    return a * x + y
