"""Correct operators that tempt a check to blame them: for what their bodies cannot do, for state, and for being slow."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import opsmith

Vector = Float[Tensor, "N"]
Matrix = Float[Tensor, "B N"]
Rows = Float[Tensor, "B"]


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype is torch.float64 else x.float()


@opsmith.op(cpu="tempting.cpp")
def pairs(x: Matrix) -> Float[Tensor, "B N//2"]:
    """The sums of neighbours; an odd number of columns is refused."""
    if x.shape[1] % 2:
        raise ValueError(f"pairs(): {x.shape[1]} columns cannot be paired")
    return x[:, ::2] + x[:, 1::2]


@opsmith.op(cpu="tempting.cpp")
def signed_scale(x: Vector) -> Vector:
    """x doubled if its first number is positive; the body looks at a number, so it cannot be traced."""
    if x.shape[0] > 0 and float(x[0]) > 0:
        return x * 2
    return x * 1


@opsmith.op(cpu="tempting.cpp", nondifferentiable="x")
def halvings(x: Vector) -> Int64[Tensor, "1"]:
    """How often the largest magnitude is halved until it is below 1, counted in a loop over data."""
    count, largest = 0, float(x.abs().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).max()) if x.shape[0] else 0.0
    while largest >= 1.0:
        count, largest = count + 1, largest / 2
    return torch.tensor([count], device=x.device)


@opsmith.op(cpu="tempting.cpp")
def lookup_table(x: Vector) -> Vector:
    """x plus the 4096th part of a large table's entry, by position; the kernel makes the table at its first call."""
    place = torch.arange(x.shape[0], device=x.device) % 65_536
    return (_wide(x) + (place * 7 % 4096).to(_wide(x).dtype) / 4096).to(x.dtype)


@opsmith.op(cpu="tempting.cpp", nondifferentiable="x")
def ranked(x: Matrix) -> Rows:
    """The second largest number of each row, or the only one; the kernel keeps its scratch memory between calls."""
    if x.shape[1] == 0:
        return x.new_zeros(x.shape[0])
    return x.sort(1, descending=True).values[:, min(1, x.shape[1] - 1)]


@opsmith.op(cpu="tempting.cpp", contiguous="x")
def rotated(x: Matrix) -> Matrix:
    """Rows turned by one place; the kernel gets a contiguous copy."""
    return x.roll(1, 1)


@opsmith.op(cpu="tempting.cpp", nondifferentiable="x")
def count_above(x: Vector, low: float = 0.0) -> Int64[Tensor, "1"]:
    """How many numbers are above a limit; the kernel counts in parts, in any order."""
    return (x > low).sum().reshape(1)
