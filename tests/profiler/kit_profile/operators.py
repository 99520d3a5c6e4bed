"""Operators whose kernels take as long as they are told, so that a profile can be held to it."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

import opsmith


@opsmith.op(cpu="spin.cpp")
def spin(x: Float[Tensor, "N"], microseconds: int = 2000) -> Float[Tensor, "N"]:
    """Return a copy, after so many microseconds."""
    return x.clone()


@spin.backward(cpu="spin.cpp")
def spin_backward(grad_out: Float[Tensor, "N"], microseconds: int) -> Float[Tensor, "N"]:
    """The gradient of a copy, after as many."""
    return grad_out.clone()


@opsmith.op(cpu="spin.cpp", contiguous="x")
def rows(x: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    """Return a copy of what the kernel gets contiguous."""
    return x.clone()


@opsmith.op(cpu="spin.cpp", mutates="x")
def add_one(x: Int[Tensor, "N"], by: list[int], *, times: int = 1) -> None:
    """Add a number to each element, in place: no element type of floats, a list, a keyword, and no result."""
    x.add_(by[0] * times)


@opsmith.op
def body_alone(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    """An operator without a kernel."""
    return torch.sin(x)


def plain(x: Tensor) -> Tensor:
    """No operator at all."""
    return torch.sin(x)


def calls() -> list[tuple[Tensor]]:
    return [(torch.zeros(8),)]
