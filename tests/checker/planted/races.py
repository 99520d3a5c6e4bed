"""Operators whose threads get in each other's way, declared once with the defects and once without: see `load.py`."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import opsmith

FLAGS = ("-DPLANTED",) if __name__.endswith("_planted") else ()
Vector = Float[Tensor, "N"]
Matrix = Float[Tensor, "B N"]
declare = {"cpu": opsmith.view("races.cpp", flags=FLAGS), "namespace": __name__}


# A sum in half precision has to be made in another type, and this one is made in its result.
@opsmith.op(**declare, dtypes=(torch.float64, torch.float32))
def scatter_add(
    table: Float[Tensor, "V N"], index: Int64[Tensor, "M"], x: Float[Tensor, "M N"]
) -> Float[Tensor, "V N"]:
    return table.index_add(0, index, x)


@opsmith.op(**declare)
def signs(x: Vector) -> Int64[Tensor, "3"]:
    return torch.stack([(x < 0).sum(), (x == 0).sum(), (x > 0).sum()])


@opsmith.op(**declare)
def compact(x: Vector) -> Vector:
    positive = x[x > 0]
    return torch.cat([positive, x.new_zeros(x.shape[0] - positive.shape[0])])


@opsmith.op(**declare)
def first_call(x: Vector) -> Vector:
    wide = x if x.dtype is torch.float64 else x.float()
    table = (torch.arange(x.shape[0], dtype=torch.float64) % 32768).log1p() / 8
    return (wide * table.to(wide.dtype)).to(x.dtype)


@opsmith.op(**declare)
def shared_scratch(x: Matrix) -> Matrix:
    return x.abs() + 1


@opsmith.op(**declare)
def no_wait(x: Vector) -> Vector:
    return torch.cumsum(x, 0)


@opsmith.op(**declare)
def column_sums(x: Matrix) -> Float[Tensor, "N"]:
    return x.sum(0)
