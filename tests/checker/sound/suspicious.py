"""Correct operators that look wrong: they refuse some arguments, count indices their own way, or know one type."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float, Float32, Float64, Int, Int64
from torch import Tensor

import opsmith

TYPES = (torch.float64, torch.float32)
Vector = Float[Tensor, "N"]
Matrix = Float[Tensor, "B N"]
Rows = Float[Tensor, "B"]


@opsmith.op(cpu="suspicious.cpp", dtypes=TYPES)
def low_power(x: Vector, order: int = 2) -> Vector:
    """The kernel has orders of 0 to 3 alone, and says so."""
    return x**order


@opsmith.op(cpu="suspicious.cpp", dtypes=TYPES)
def kept(x: Vector, part: float = 0.5) -> Vector:
    """The kernel takes parts of 0 to 1, where the body takes any."""
    return x * part + (1 - part)


@opsmith.op(cpu="suspicious.cpp", dtypes=TYPES)
def counted_from_one(table: Float[Tensor, "V N"], place: Int64[Tensor, "M"]) -> Float[Tensor, "M N"]:
    if bool(((place < 1) | (place > table.shape[0])).any()):
        raise IndexError("places are 1 to the number of rows")
    return table[place - 1]


@opsmith.op(cpu="suspicious.cpp", dtypes=TYPES)
def from_either_end(x: Matrix, index: Int[Tensor, "B"]) -> Rows:
    """An index from -N to N - 1, as in Python."""
    if bool(((index < -x.shape[1]) | (index >= x.shape[1])).any()):
        raise IndexError("an index is outside of its row")
    return x.gather(1, (index.long() % max(x.shape[1], 1))[:, None])[:, 0]


@opsmith.op(cpu="suspicious.cpp", dtypes=TYPES, outputs="y")
def padded_rows(table: Float[Tensor, "V N"], index: Int64[Tensor, "M"], padding: int = -1) -> Float[Tensor, "M N"]:
    """Rows of a table; that of `padding` gets no gradient, and neither is it one for a row that does not exist."""
    if padding < 0:
        return torch.nn.functional.embedding(index, table)
    return torch.nn.functional.embedding(index, table, padding_idx=padding)


@padded_rows.backward(cpu="suspicious.cpp", dtypes=TYPES)
def padded_rows_backward(
    grad_y: Float[Tensor, "M N"], table: Float[Tensor, "V N"], index: Int64[Tensor, "M"], padding: int
) -> Float[Tensor, "V N"]: ...


@opsmith.op(cpu="suspicious.cpp")
def in_double(x: Float64[Tensor, "N"]) -> Float64[Tensor, "N"]:
    """The product of the unit roots of each number: the body works on complex128."""
    return torch.view_as_real(torch.view_as_complex(torch.stack([x.cos(), x.sin()], 1)) ** 2)[:, 0].contiguous()


@opsmith.op(cpu="suspicious.cpp")
def bit_of_sign(x: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    return (x.detach().view(torch.int32) >> 31).float()


@opsmith.op(cpu="suspicious.cpp")
def quarter_turn(x: Float32[Tensor, "B 2"], scale: Float64[Tensor, "B"]) -> Float32[Tensor, "B 2"]:
    """Two types, and a matrix of its own in one of them."""
    if scale.dtype is not torch.float64:
        raise TypeError("scale is float64")
    # Made here: with a tensor from outside PyTorch cannot trace the gradient of a body.
    rotation = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
    return (x @ rotation.t()) * scale.float()[:, None]


@opsmith.op(cpu="suspicious.cpp", dtypes=TYPES)
def turned_in_tiles(x: Float[Tensor, "M N"]) -> Float[Tensor, "N M"]:
    return x.t().contiguous()


@opsmith.op(cpu="suspicious.cpp", dtypes=TYPES)
def by_leading_dimension(x: Float[Tensor, "M K"], y: Float[Tensor, "K N"]) -> Float[Tensor, "M N"]:
    return x @ y


@opsmith.op(cpu="suspicious.cpp", dtypes=TYPES)
def normed(x: Matrix, kind: Literal["l1", "l2", "max"] = "l2", floor: float | None = None) -> Rows:
    """The kernel refuses to divide by nothing: a floor has to be above 0."""
    if kind == "l1":
        size = x.abs().sum(1)
    elif kind == "l2":
        size = x.square().sum(1).sqrt()
    else:
        size = x.abs().amax(1)
    return size if floor is None else size.clamp(min=floor)
