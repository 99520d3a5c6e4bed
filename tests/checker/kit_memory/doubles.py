"""Twice a vector, with one defect each in what the kernel does to memory."""

from jaxtyping import Float
from torch import Tensor

import opsmith


@opsmith.op(cpu="doubles.cpp", outputs="y")
def right(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return 2 * x


@opsmith.op(cpu="doubles.cpp", outputs="y")
def without_tail(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return 2 * x


@opsmith.op(cpu="doubles.cpp", outputs="y")
def adds_to_it(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return 2 * x


@opsmith.op(cpu="doubles.cpp", outputs="y")
def one_behind(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return 2 * x


@opsmith.op(cpu="doubles.cpp", outputs="y")
def one_before(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return 2 * x


@opsmith.op(cpu="doubles.cpp", outputs="y")
def next_one(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return 2 * x


@opsmith.op(cpu="doubles.cpp", outputs="y")
def clears_input(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return 2 * x


@opsmith.op(cpu="doubles.cpp", outputs="y")
def no_strides(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return 2 * x


@opsmith.op(cpu="doubles.cpp", mutates="x")
def in_place_(x: Float[Tensor, "N"]) -> None:
    x.mul_(2)


@opsmith.op(cpu="doubles.cpp", mutates="x")
def between_(x: Float[Tensor, "N"]) -> None:
    x.mul_(2)


@opsmith.op(cpu=opsmith.view("doubles.cpp", entry="right"), outputs="y")
def bad_slope(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return 2 * x


@bad_slope.backward(cpu=opsmith.view("doubles.cpp", entry="slope"), outputs="grad_x")
def bad_slope_backward(grad_y: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return 2 * grad_y
