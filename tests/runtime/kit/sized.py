"""Operators whose sizes are computed from arguments that may be anything."""

from __future__ import annotations

from jaxtyping import Float32
from torch import Tensor

import opsmith


@opsmith.op(cpu="sized.cpp")
def quotient(x: Float32[Tensor, "N"], n: int, m: int) -> Float32[Tensor, "n//m"]:
    """Zeros."""
    return x.new_zeros(n // m)


@opsmith.op(cpu="sized.cpp")
def remainder(x: Float32[Tensor, "N"], n: int, m: int) -> Float32[Tensor, "n%m"]:
    """Zeros."""
    return x.new_zeros(n % m)


@opsmith.op(cpu="sized.cpp")
def product(x: Float32[Tensor, "N"], n: int, m: int) -> Float32[Tensor, "n*m"]:
    """Zeros."""
    return x.new_zeros(n * m)


@opsmith.op(cpu="sized.cpp")
def difference(x: Float32[Tensor, "N"], n: int, m: int) -> Float32[Tensor, "n-m+-m"]:
    """Zeros."""
    return x.new_zeros(n - 2 * m)


@opsmith.op(cpu="sized.cpp")
def solved(x: Float32[Tensor, "a*N+b"], a: int, b: int) -> Float32[Tensor, "N"]:
    """Zeros, as many as solve the equation."""
    return x.new_zeros((x.shape[0] - b) // a)


@opsmith.op(cpu="sized.cpp")
def compared(x: Float32[Tensor, "N"], y: Float32[Tensor, "N*a+b"], a: int, b: int) -> Float32[Tensor, "N"]:
    """Zeros."""
    return x.new_zeros(x.shape[0])
