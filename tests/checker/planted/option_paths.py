"""Operators with paths for an option and a size or a layout at once: see `load.py`."""

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith

FLAGS = ("-DPLANTED",) if __name__.endswith("_planted") else ()
KERNELS = opsmith.view("option_paths.cpp", flags=FLAGS)
Matrix = Float[Tensor, "B N"]
Row = Float[Tensor, "N"]
declare = {"cpu": KERNELS, "namespace": __name__, "dtypes": (torch.float64, torch.float32)}


@opsmith.op(**declare)
def ungained_blocks(x: Matrix, gain: Row | None = None) -> Matrix:
    return x.clone() if gain is None else x * gain


@opsmith.op(**declare)
def long_doubled(x: Matrix, double: bool = False) -> Matrix:
    return x * 2 if double else x.clone()


@opsmith.op(**declare)
def two_at_once(x: Matrix, gain: Row | None = None, bias: Row | None = None, flip: bool = False) -> Matrix:
    y = x if gain is None else x * gain
    y = y if bias is None else y + bias
    return y.flip(1) if flip else y.clone()


@opsmith.op(**declare)
def ungained_dense(x: Matrix, gain: Row | None = None) -> Matrix:
    return x.clone() if gain is None else x * gain


@opsmith.op(**declare)
def doubled_dense(x: Matrix, double: bool = False) -> Matrix:
    return x * 2 if double else x.clone()


@opsmith.op(**declare)
def many_summed(tensors: list[Row]) -> Row:
    return torch.stack(tensors).sum(0)


@opsmith.op(outputs="y", **declare)
def ungained_slope(x: Matrix, gain: Row | None = None) -> Matrix:
    return x.square() if gain is None else x.square() * gain


@ungained_slope.backward(cpu=KERNELS)
def ungained_slope_backward(grad_y: Matrix, x: Matrix, gain: Row | None) -> tuple[Matrix, Row]: ...


@opsmith.op(outputs=("y", "s"), saved="s", **declare)
def kept_exponential(x: Matrix, needs_s: bool = False) -> tuple[Matrix, Matrix]:
    s = x.exp()
    return s + 1, s


@kept_exponential.backward(cpu=KERNELS)
def kept_exponential_backward(grad_y: Matrix, x: Matrix, s: Matrix) -> Matrix:
    return grad_y * s


@opsmith.op(outputs="y", **declare)
def frozen_gain(x: Matrix, gain: Row) -> Matrix:
    return x * gain


@frozen_gain.backward(cpu=KERNELS)
def frozen_gain_backward(
    grad_y: Matrix, x: Matrix, gain: Row, needs_grad_x: bool, needs_grad_gain: bool
) -> tuple[Matrix, Row]: ...
