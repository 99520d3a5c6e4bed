"""Operators with a view kernel each, declared once with the defects and once without: see `load.py`."""

import torch
from jaxtyping import Float, Int, Int64
from torch import Tensor

import opsmith

FLAGS = ("-DPLANTED",) if __name__.endswith("_planted") else ()
KERNELS = opsmith.view("kernels.cpp", flags=FLAGS)
Vector = Float[Tensor, "N"]
Matrix = Float[Tensor, "B N"]
Rows = Float[Tensor, "B"]
declare = {"cpu": KERNELS, "namespace": __name__}


def _wide(x: Tensor) -> Tensor:
    """Sums are made in float32 at least."""
    return x if x.dtype is torch.float64 else x.float()


@opsmith.op(**declare)
def softmax(x: Matrix) -> Matrix:
    return torch.softmax(x, 1)


@opsmith.op(**declare)
def softplus(x: Vector) -> Vector:
    return torch.nn.functional.softplus(x)


@opsmith.op(**declare)
def blend(x: Vector, y: Vector) -> Vector:
    return x * y + 0.5


@opsmith.op(**declare)
def fast_tanh(x: Vector) -> Vector:
    return torch.tanh(x)


@opsmith.op(**declare)
def variance(x: Matrix) -> Rows:
    return x.var(1, correction=0)


@opsmith.op(**declare)
def mean_rows(x: Matrix) -> Rows:
    return x.mean(1)


@opsmith.op(**declare)
def sum_rows(x: Matrix) -> Rows:
    return x.sum(1)


@opsmith.op(**declare)
def largest(x: Matrix) -> Rows:
    return x.amax(1) if x.shape[1] else x.new_full(x.shape[:1], -torch.inf)


@opsmith.op(**declare)
def relu(x: Vector) -> Vector:
    return torch.relu(x)


@opsmith.op(**declare)
def triple(x: Int[Tensor, "N"]) -> Int[Tensor, "N"]:
    return x * 3


@opsmith.op(**declare)
def halve_down(x: Int[Tensor, "N"]) -> Int[Tensor, "N"]:
    return torch.div(x, 2, rounding_mode="floor")


@opsmith.op(**declare)
def tail(x: Vector) -> Vector:
    return x * 2


@opsmith.op(**declare)
def turn(x: Float[Tensor, "M N"]) -> Float[Tensor, "M N"]:
    return x.clone()


@opsmith.op(**declare)
def long_rows(x: Matrix) -> Rows:
    if x.shape[1] == 0:
        return x.new_zeros(x.shape[:1])
    return _wide(x).amax(1).clamp(min=0).add(_wide(x)[:, 0]).to(x.dtype)


@opsmith.op(**declare)
def one_column(x: Matrix) -> Matrix:
    return x * 3


@opsmith.op(**declare)
def around(x: Matrix, place: int = 5) -> Rows:
    return x[:, place % x.shape[1]].clone() if x.shape[1] else x.new_zeros(x.shape[:1])


@opsmith.op(**declare)
def product(x: Matrix) -> Rows:
    return _wide(x).prod(1).to(x.dtype)


@opsmith.op(**declare)
def dense(x: Matrix) -> Matrix:
    return x + 1


@opsmith.op(**declare)
def rows_apart(x: Matrix) -> Matrix:
    return -x


@opsmith.op(**declare)
def expanded(x: Matrix) -> Matrix:
    return x * 2


@opsmith.op(**declare)
def image(x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
    return x * 2


@opsmith.op(**declare)
def flagged(x: Vector, negate: bool = False) -> Vector:
    return -x if negate else x.clone()


@opsmith.op(**declare)
def biased(x: Matrix, bias: Vector | None = None) -> Matrix:
    return x.clone() if bias is None else x + bias


@opsmith.op(**declare)
def unbiased(x: Matrix, bias: Vector | None = None) -> Matrix:
    return x.clone() if bias is None else x + bias


@opsmith.op(**declare)
def stacked(xs: list[Vector]) -> Vector:
    return torch.stack([_wide(x) for x in xs]).sum(0).to(xs[0].dtype)


@opsmith.op(**declare)
def stale(x: Vector) -> Vector:
    return x.clone()


@opsmith.op(**declare)
def write_after(x: Vector) -> Vector:
    return x.clone()


@opsmith.op(**declare)
def write_before(x: Vector) -> Vector:
    return x.clone()


@opsmith.op(**declare)
def neighbour(x: Vector) -> Vector:
    return torch.cat([x[1:], x.new_zeros(min(1, x.shape[0]))]) - x


@opsmith.op(**declare)
def scribble(x: Vector) -> Vector:
    return x * 2


@opsmith.op(**declare)
def leak(x: Vector) -> Vector:
    return x.clone()


@opsmith.op(**declare)
def restless(x: Matrix) -> Rows:
    return x.sum(1)


@opsmith.op(**declare, nondifferentiable="x")
def race(x: Vector) -> Float[Tensor, "1"]:
    return (x > 0).sum().to(x.dtype).reshape(1)


@opsmith.op(**declare)
def chunked(x: Vector) -> Float[Tensor, "1"]:
    return x.sum().reshape(1)


@opsmith.op(**declare, outputs="y")
def cube(x: Vector) -> Vector:
    return x**3


@cube.backward(cpu=KERNELS)
def cube_backward(grad_y: Vector, x: Vector) -> Vector:
    return 3 * x**2 * grad_y


@opsmith.op(**declare)
def multiply(x: Vector, y: Vector) -> Vector:
    return x * y


@multiply.backward(cpu=KERNELS)
def multiply_backward(grad_out: Vector, x: Vector, y: Vector) -> tuple[Vector, Vector]:
    return grad_out * y, grad_out * x


@opsmith.op(**declare, outputs="y")
def half_gradient(x: Matrix) -> Rows:
    return x.square().sum(1)


@half_gradient.backward(cpu=KERNELS)
def half_gradient_backward(grad_y: Rows, x: Matrix) -> Matrix:
    return 2 * x * grad_y[:, None]


@opsmith.op(**declare)
def far_apart(x: Matrix) -> Rows:
    return x.sum(1)


@opsmith.op(**declare)
def naive_sigmoid(x: Vector) -> Vector:
    return torch.sigmoid(x)


@opsmith.op(**declare)
def place_of_largest(x: Matrix) -> Int64[Tensor, "B"]:
    return x.argmax(1) if x.shape[1] else x.new_zeros(x.shape[0], dtype=torch.int64)


@opsmith.op(**declare)
def reverse(x: Vector) -> Vector:
    return x.flip(0)


@opsmith.op(**declare)
def up_to_32(x: Vector) -> Vector:
    return x.clone()


@opsmith.op(**declare)
def window(x: Vector, width: int = 3) -> Float[Tensor, "N-width+1"]:
    return _wide(x).unfold(0, width, 1).sum(1).to(x.dtype)


@opsmith.op(**declare, outputs="y")
def slope(x: Vector) -> Vector:
    return 2 * x


@slope.backward(cpu=KERNELS)
def slope_backward(grad_y: Vector) -> Vector:
    return 2 * grad_y


@opsmith.op(**declare, outputs="y")
def scale_rows(x: Matrix, scale: Rows) -> Matrix:
    return x * scale[:, None]


@scale_rows.backward(cpu=KERNELS)
def scale_rows_backward(grad_y: Matrix, x: Matrix, scale: Rows) -> tuple[Matrix, Rows]:
    return grad_y * scale[:, None], (_wide(grad_y) * _wide(x)).sum(1).to(x.dtype)


@opsmith.op(**declare)
def lookup(table: Float[Tensor, "V N"], index: Int[Tensor, "M"]) -> Float[Tensor, "M N"]:
    if ((index < 0) | (index >= table.shape[0])).any():
        raise IndexError("an index is outside of the table")
    return table[index.long()]
