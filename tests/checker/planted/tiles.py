"""Operators whose kernels have tiles, special widths and long rows, with defects at some sizes: see `load.py`."""

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

import opsmith

FLAGS = ("-DPLANTED",) if __name__.endswith("_planted") else ()
KERNELS = opsmith.view("tiles.cpp", flags=FLAGS)
Matrix = Float[Tensor, "B N"]
Rows = Float[Tensor, "B"]
TYPES = (torch.float64, torch.float32)
declare = {"cpu": KERNELS, "namespace": __name__, "dtypes": TYPES}


@opsmith.op(**declare)
def tiled(x: Matrix) -> Matrix:
    return 2 * x + 1


@opsmith.op(**declare)
def tiled_turn(x: Float[Tensor, "M N"]) -> Float[Tensor, "N M"]:
    return x.t().contiguous()


@opsmith.op(**declare)
def outer(x: Float[Tensor, "M"], y: Float[Tensor, "N"]) -> Float[Tensor, "M N"]:
    return x[:, None] * y


@opsmith.op(**declare)
def thirds(x: Matrix) -> Rows:
    return x.sum(1)


@opsmith.op(**declare)
def head_of_80(x: Matrix) -> Matrix:
    return x * (x.shape[1] or 1) ** -0.5


@opsmith.op(**declare)
def unrolled_96(x: Matrix) -> Rows:
    return x.square().sum(1)


@opsmith.op(**declare)
def two_per_192(x: Matrix) -> Matrix:
    return x - x.mean(1, keepdim=True)


@opsmith.op(**declare)
def norm_of_384(x: Matrix) -> Matrix:
    return x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-5)


@opsmith.op(**declare)
def hidden_768(x: Matrix, weight: Float[Tensor, "N"]) -> Matrix:
    return torch.nn.functional.layer_norm(x, x.shape[1:], weight)


@opsmith.op(**declare)
def any_above(x: Matrix) -> Bool[Tensor, "B"]:
    return (x > 1.5).any(1)


@opsmith.op(**declare)
def least(x: Matrix) -> Rows:
    return x.amin(1) if x.shape[1] else x.new_full(x.shape[:1], torch.inf)


@opsmith.op(**declare)
def place_of_most(x: Matrix) -> Int64[Tensor, "B"]:
    return x.argmax(1) if x.shape[1] else x.new_zeros(x.shape[0], dtype=torch.int64)


@opsmith.op(**declare, outputs="y")
def squares_of_rows(x: Matrix) -> Rows:
    return x.square().sum(1)


@squares_of_rows.backward(cpu=KERNELS, dtypes=TYPES)
def squares_of_rows_backward(grad_y: Rows, x: Matrix) -> Matrix:
    return 2 * x * grad_y[:, None]


@opsmith.op(**declare, outputs="y")
def tripled(x: Matrix) -> Matrix:
    return 3 * x


@tripled.backward(cpu=KERNELS, dtypes=TYPES)
def tripled_backward(grad_y: Matrix) -> Matrix:
    return 3 * grad_y


@opsmith.op(**declare, outputs="y")
def tiled_weights(x: Matrix, weight: Float[Tensor, "N"]) -> Matrix:
    return x * weight


@tiled_weights.backward(cpu=KERNELS, dtypes=TYPES)
def tiled_weights_backward(grad_y: Matrix, x: Matrix, weight: Float[Tensor, "N"]) -> tuple[Matrix, Float[Tensor, "N"]]:
    return grad_y * weight, (grad_y * x).sum(0)
