"""Operators whose kernels know some layouts and are wrong for combinations of them: see `load.py`."""

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith

FLAGS = ("-DPLANTED",) if __name__.endswith("_planted") else ()
KERNELS = opsmith.view("mixed_layouts.cpp", flags=FLAGS)
Matrix = Float[Tensor, "B N"]
Rows = Float[Tensor, "B"]
Cube = Float[Tensor, "B T D"]
Image = Float[Tensor, "B C H W"]
TYPES = (torch.float64, torch.float32)
declare = {"cpu": KERNELS, "namespace": __name__, "dtypes": TYPES}


@opsmith.op(**declare)
def by_columns(x: Matrix) -> Matrix:
    return x + 2


@opsmith.op(**declare)
def times_columns(x: Float[Tensor, "M K"], y: Float[Tensor, "K N"]) -> Float[Tensor, "M N"]:
    return x @ y


@opsmith.op(**declare)
def nhwc(x: Image) -> Image:
    return x * 3


@opsmith.op(**declare)
def copy_rows(x: Matrix) -> Matrix:
    return x.clone()


@opsmith.op(**declare)
def in_vectors(x: Matrix) -> Rows:
    return x.sum(1)


@opsmith.op(**declare)
def two_steps(x: Matrix) -> Matrix:
    return -x


@opsmith.op(**declare)
def heads(x: Cube) -> Cube:
    return x * 0.5


@opsmith.op(**declare)
def batch_of_turned(x: Cube) -> Float[Tensor, "B T"]:
    return x.sum(2)


@opsmith.op(**declare)
def spread_columns(x: Matrix) -> Matrix:
    return 1 - x


@opsmith.op(**declare)
def turned_block(x: Float[Tensor, "M N"]) -> Float[Tensor, "M N"]:
    return x * 4


@opsmith.op(**declare, outputs="y")
def wide_scale(x: Matrix) -> Matrix:
    return 5 * x


@wide_scale.backward(cpu=KERNELS, dtypes=TYPES)
def wide_scale_backward(grad_y: Matrix) -> Matrix:
    return 5 * grad_y


@opsmith.op(**declare, outputs="y")
def wide_turned(x: Matrix) -> Matrix:
    return x * x


@wide_turned.backward(cpu=KERNELS, dtypes=TYPES)
def wide_turned_backward(grad_y: Matrix, x: Matrix) -> Matrix:
    return 2 * x * grad_y


@opsmith.op(**declare, outputs="y")
def part_of_gradient(x: Matrix) -> Matrix:
    return 6 * x


@part_of_gradient.backward(cpu=KERNELS, dtypes=TYPES)
def part_of_gradient_backward(grad_y: Matrix) -> Matrix:
    return 6 * grad_y
