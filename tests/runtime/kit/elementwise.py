"""Elementwise operators of any rank, and operators that write to their arguments."""

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

import opsmith


@opsmith.op(cpu="elementwise.cpp")
def axpy(bias: Float[Tensor, "*n"] | None, x: Float[Tensor, "*n"], y: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """x + 2 y + bias, in the strides of the inputs where they are all alike."""
    out = x + 2 * y
    return out if bias is None else out + bias


@opsmith.op(cpu="elementwise.cpp", outputs=("chosen", "place"))
def select(
    mask: Bool[Tensor, "*n"], x: Float[Tensor, "*n"], y: Float[Tensor, "*n"]
) -> tuple[Float[Tensor, "*n"], Int64[Tensor, "*n"]]:
    """x where the mask is set, y elsewhere; and which of the two it was."""
    return torch.where(mask, x, y), 1 - mask.long()


@opsmith.op(cpu="elementwise.cpp", mutates="x")
def scale_(x: Float[Tensor, "*n"], factor: float) -> None:
    """Multiply in place."""
    x.mul_(factor)


@opsmith.op(cpu="elementwise.cpp", mutates=("total", "count"), contiguous="total")
def accumulate(
    total: Float[Tensor, "N"], x: Float[Tensor, "B N"], count: Int64[Tensor, "1"] | None = None
) -> Float[Tensor, "N"]:
    """Add each row of x to total and the number of rows to count; return the first row."""
    total.add_(x.sum(0))
    if count is not None:
        count.add_(x.shape[0])
    return x[0]


@opsmith.op(cpu="elementwise.cpp", mutates="x")
def zero_diagonal(x: Float[Tensor, "N N"]) -> None:
    """Write through whatever strides the argument has."""
    x.fill_diagonal_(0)


@opsmith.op(cpu="elementwise.cpp", mutates="x")
def zero_rows(x: Float[Tensor, "*batch N"]) -> None:
    """Write to an argument whose group may have to be copied to be seen as one dimension."""
    x[..., 0] = 0
