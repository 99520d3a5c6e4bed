"""Operators that are wrong on one path alone: declared once with the defects and once without, see `load.py`."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

import opsmith

PLANTED = __name__.endswith("_planted")
KERNELS = opsmith.view("paths.cpp", flags=("-DPLANTED",) if PLANTED else ())
Vector = Float[Tensor, "N"]
Matrix = Float[Tensor, "B N"]
Rows = Float[Tensor, "B"]
declare = {"cpu": KERNELS, "namespace": __name__}


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype is torch.float64 else x.float()


@opsmith.op(**declare)
def rest_of_two(x: Vector) -> Vector:
    return x * 2


@opsmith.op(**declare)
def full_tiles(x: Matrix) -> Matrix:
    return x * 2


@opsmith.op(**declare)
def rows_of_2048(x: Matrix) -> Rows:
    return _wide(x).sum(1).to(x.dtype)


@opsmith.op(**declare)
def a_million(x: Vector) -> Vector:
    return x * 2


@opsmith.op(**declare)
def positives(x: Matrix) -> Int64[Tensor, "B"]:
    return (x > 0).sum(1)


@opsmith.op(**declare, outputs="y")
def squares(x: Vector) -> Vector:
    return x * x


@squares.backward(cpu=KERNELS)
def squares_backward(grad_y: Vector, x: Vector) -> Vector:
    return 2 * x * grad_y


@opsmith.op(**declare)
def single_factor(x: Vector, factor: float) -> Vector:
    return x * factor


@opsmith.op(**declare)
def short_number(x: Int64[Tensor, "N"], number: int) -> Int64[Tensor, "N"]:
    return x + number


@opsmith.op(**declare)
def four_of_list(parts: list[Vector]) -> Vector:
    return sum(parts[1:], parts[0].clone())


@opsmith.op(**declare)
def sizes_of_first(parts: list[Float[Tensor, "_ N"]]) -> Vector:
    return sum((_wide(part).sum(0) for part in parts[1:]), _wide(parts[0]).sum(0)).to(parts[0].dtype)


@opsmith.op(**declare)
def strides_of_first(parts: list[Matrix]) -> Matrix:
    return sum(parts[1:], parts[0].clone())


@opsmith.op(**declare)
def shared_heads(x: Float[Tensor, "A B C"]) -> Float[Tensor, "A B C"]:
    return x * 2


@opsmith.op(**declare)
def one_row(x: Matrix) -> Matrix:
    return x * 2


@opsmith.op(**declare)
def unsigned_offset(x: Matrix) -> Matrix:
    return x * 2


@opsmith.op(**declare)
def leaks_in_large(x: Vector) -> Vector:
    return x * 2


@opsmith.op(**declare)
def leaks_in_strided(x: Matrix) -> Matrix:
    return x * 2


@opsmith.op(**declare)
def leaks_where_it_raises(x: Vector, times: int = 2) -> Vector:
    if times < 0:
        raise ValueError("times must not be negative")
    return x * times


@opsmith.op(**declare)
def leaves_files_open(x: Vector) -> Vector:
    return x * 2


@opsmith.op(**declare)
def leaves_pages_mapped(x: Vector) -> Vector:
    return x * 2


@opsmith.op(**declare)
def ignores_interrupts(x: Vector) -> Vector:
    return x * 2


@opsmith.op(**declare)
def other_locale(x: Vector) -> Vector:
    return x * 2


@opsmith.op(**declare)
def other_environment(x: Vector) -> Vector:
    return x * 2


@opsmith.op(**declare)
def flushes_in_strided(x: Matrix) -> Matrix:
    return x * 2


@opsmith.op(**declare)
def rounds_where_it_raises(x: Vector, times: int = 2) -> Vector:
    if times < 0:
        raise ValueError("times must not be negative")
    return x * times


@opsmith.op(**declare)
def reads_before(x: Vector) -> Vector:
    return x * 2


@opsmith.op(**declare)
def writes_far(x: Vector) -> Vector:
    return x * 2


@opsmith.op(**declare)
def on_the_stack(x: Vector) -> Float[Tensor, "1"]:
    return _wide(x).sum().reshape(1).to(x.dtype)


@opsmith.op(**declare)
def neither_true_nor_false(x: Vector) -> Bool[Tensor, "N"]:
    return x > 0


@opsmith.op(**declare)
def every_500th(x: Vector) -> Vector:
    return x * 2


@opsmith.op(**declare)
def eight_places(x: Vector) -> Int64[Tensor, "1"]:
    return (x > 0).sum().reshape(1)


@opsmith.op(**declare)
def with_a_helper(x: Vector) -> Vector:
    return x * 2


@opsmith.op(**declare, outputs="y")
def rectified_more(x: Vector) -> Vector:
    return x.relu()


@rectified_more.backward(cpu=KERNELS)
def rectified_more_backward(grad_y: Vector, x: Vector) -> Vector:
    return torch.where(x > 0, grad_y, 0)


@opsmith.op(**declare, outputs="y")
def kept_slopes(x: Vector) -> Vector:
    return x * x


@kept_slopes.backward(cpu=KERNELS)
def kept_slopes_backward(grad_y: Vector, x: Vector) -> Vector:
    return 2 * x * grad_y


@opsmith.op(**declare, outputs="y")
def reads_on(x: Vector) -> Vector:
    return x * x


@reads_on.backward(cpu=KERNELS)
def reads_on_backward(grad_y: Vector, x: Vector) -> Vector:
    return 2 * x * grad_y
