"""Operators with a CUDA kernel each, declared once with the defects and once without: see `load.py`."""

import torch
from jaxtyping import Float16, Float32, Float64
from torch import Tensor

import opsmith

FLAGS = ("--extended-lambda", *(("-DPLANTED",) if __name__.endswith("_planted") else ()))
KERNELS = opsmith.view("gpu.cu", flags=FLAGS)
Vector = Float32[Tensor, "N"]
Matrix = Float32[Tensor, "B N"]
Rows = Float32[Tensor, "B"]
One = Float32[Tensor, "1"]
declare = {"cuda": KERNELS, "namespace": __name__}
# Most kernels here take elements in a row: layouts are another class of defects.
dense = {**declare, "contiguous": "x"}


@opsmith.op(**dense)
def no_barrier(x: Matrix) -> Matrix:
    return x.flip(1)


@opsmith.op(**declare, contiguous=("a", "b"))
def tile_reuse(a: Float32[Tensor, "M K"], b: Float32[Tensor, "K N"]) -> Float32[Tensor, "M N"]:
    return a @ b


@opsmith.op(**declare)
def one_warp(x: Matrix) -> Rows:
    return x.sum(1)


@opsmith.op(**dense)
def shared_bytes(x: Matrix) -> Matrix:
    return x - x.mean(1, keepdim=True)


@opsmith.op(**dense)
def block_race(x: Vector) -> One:
    return x.sum().reshape(1)


@opsmith.op(**dense)
def rows_on_y(x: Matrix) -> Matrix:
    return 2 * x


@opsmith.op(**dense)
def unchecked_launch(x: Matrix) -> Matrix:
    return x.flip(1)


@opsmith.op(**dense)
def lost_error(x: Matrix) -> Matrix:
    return x.flip(1)


@opsmith.op(**dense)
def zero_blocks(x: Vector) -> One:
    return x.sum().reshape(1)


@opsmith.op(**dense)
def capped_grid(x: Vector) -> Vector:
    return -x


@opsmith.op(**dense)
def thread_index(x: Vector) -> Vector:
    return x * 3


@opsmith.op(**dense)
def full_tiles(x: Float32[Tensor, "M N"]) -> Float32[Tensor, "N M"]:
    return x.t().contiguous()


@opsmith.op(**dense)
def many_blocks(x: Vector) -> One:
    return x.sum().reshape(1)


@opsmith.op(**dense)
def vectors_of_4(x: Vector) -> Vector:
    return x * 2


@opsmith.op(**dense)
def stores_of_4(x: Vector) -> Vector:
    return x - 1


@opsmith.op(**dense)
def reads_next(x: Vector) -> Vector:
    return torch.cat([x[1:], x.new_zeros(min(1, x.shape[0]))]) - x


@opsmith.op(**dense)
def in_place(x: Vector) -> Vector:
    return x * 0.5 + 1


@opsmith.op(**declare)
def far_rows(x: Matrix) -> Rows:
    return x.sum(1)


@opsmith.op(**declare)
def row_pitch(x: Matrix) -> Matrix:
    return x + 2


@opsmith.op(**dense)
def half_atomics(x: Float16[Tensor, "B N"]) -> Float16[Tensor, "N"]:
    return x.float().sum(0).half()


@opsmith.op(**dense)
def half_squares(x: Float16[Tensor, "B N"]) -> Float16[Tensor, "B"]:
    if x.shape[1] == 0:
        return x.new_zeros(x.shape[0])
    return x.float().square().mean(1).sqrt().half()


@opsmith.op(**dense)
def row_minimum(x: Matrix) -> Rows:
    return x.amin(1) if x.shape[1] else x.new_full(x.shape[:1], torch.inf)


@opsmith.op(**dense)
def row_maximum(x: Matrix) -> Rows:
    return x.amax(1) if x.shape[1] else x.new_full(x.shape[:1], -torch.inf)


@opsmith.op(**declare, contiguous=("x", "y"))
def fast_divide(x: Vector, y: Vector) -> Vector:
    return x / y


@opsmith.op(**dense)
def fast_log(x: Vector) -> Vector:
    return x.abs().log()


@opsmith.op(**dense)
def fast_tanh(x: Vector) -> Vector:
    return torch.tanh(x)


@opsmith.op(**dense)
def in_float(x: Float64[Tensor, "N"]) -> Float64[Tensor, "N"]:
    return x * x + 0.1


@opsmith.op(**dense)
def other_stream(x: Vector) -> Vector:
    return x + 4


@opsmith.op(**dense)
def own_stream(x: Vector) -> Vector:
    return x + 5


@opsmith.op(**dense)
def first_gpu(x: Vector) -> Vector:
    return x + 6


@opsmith.op(**dense)
def kept_workspace(x: Vector) -> One:
    return x.sum().reshape(1)


@opsmith.op(**dense)
def device_array(x: Vector) -> One:
    return x.sum().reshape(1)


@opsmith.op(**dense)
def constant_memory(x: Vector, factor: float) -> Vector:
    return x * factor


@opsmith.op(**dense)
def pinned_argument(x: Vector, factor: float) -> Vector:
    return x - factor


@opsmith.op(**dense)
def early_count(x: Vector) -> Vector:
    return x / ((x > 0).sum() + 1)


@opsmith.op(**dense)
def waits(x: Vector) -> Vector:
    return x + 7


@opsmith.op(**dense)
def allocates(x: Vector) -> Vector:
    return x + 8


@opsmith.op(**dense, nondifferentiable="x")
def clears_on_default(x: Matrix) -> Vector:
    return (x > 0).sum(0).to(x.dtype)


@opsmith.op(**declare, contiguous=("x", "scale"), outputs="y")
def accumulates(x: Matrix, scale: Vector) -> Matrix:
    return x * scale


@accumulates.backward(cuda=KERNELS, contiguous=("grad_y", "x", "scale"))
def accumulates_backward(grad_y: Matrix, x: Matrix, scale: Vector) -> tuple[Matrix, Vector]:
    return grad_y * scale, (grad_y * x).sum(0)


@opsmith.op(**declare, contiguous=("x", "scale"), outputs="y")
def last_block_wins(x: Matrix, scale: Vector) -> Matrix:
    return x * scale


@last_block_wins.backward(cuda=KERNELS, contiguous=("grad_y", "x", "scale"))
def last_block_wins_backward(grad_y: Matrix, x: Matrix, scale: Vector) -> tuple[Matrix, Vector]:
    return grad_y * scale, (grad_y * x).sum(0)
