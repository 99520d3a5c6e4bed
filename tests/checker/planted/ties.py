"""Operators that decide ties in another way than their references, declared once with the defects and once without."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import opsmith

FLAGS = ("-DPLANTED",) if __name__.endswith("_planted") else ()
KERNELS = opsmith.view("ties.cpp", flags=FLAGS)
Vector = Float[Tensor, "N"]
Matrix = Float[Tensor, "B N"]
declare = {"cpu": KERNELS, "namespace": __name__}


@opsmith.op(**declare)
def histogram(x: Vector, low: float = -2.0, high: float = 2.0) -> Int64[Tensor, "8"]:
    place = ((x - low) * (8 / (high - low))).floor()
    inside = (x >= low) & (x <= high)
    return torch.bincount(place[inside].clamp(0, 7).long(), minlength=8)


@opsmith.op(**declare)
def rounded(x: Vector) -> Vector:
    return torch.round(x)


@opsmith.op(**declare)
def quantized(x: Vector, step: float = 0.5) -> Vector:
    return torch.round(x / step).clamp(-128, 127) * step


@opsmith.op(**declare)
def sign(x: Vector) -> Vector:
    return torch.sign(x)


@opsmith.op(**declare)
def above(x: Vector, limit: float = 0.25) -> Vector:
    return torch.where(x > limit, x, 0.0)


@opsmith.op(**declare)
def lowered(x: Vector) -> Vector:
    return torch.floor(x)


@opsmith.op(**declare)
def place(x: Vector, edges: Float[Tensor, "M"]) -> Int64[Tensor, "N"]:
    return torch.searchsorted(edges.nan_to_num().sort().values, x.nan_to_num())


@opsmith.op(**declare)
def within(x: Matrix, low: float = -1.5, high: float = 1.5) -> Float[Tensor, "B"]:
    wide = x if x.dtype is torch.float64 else x.float()
    return torch.where((wide >= low) & (wide < high), wide, 0.0).sum(1).to(x.dtype)


@opsmith.op(**declare)
def least(x: Matrix) -> Int64[Tensor, "B"]:
    return x.argmin(1) if x.shape[1] else x.new_zeros(x.shape[0], dtype=torch.int64)


@opsmith.op(**declare)
def after_decimal(x: Vector) -> Vector:
    return torch.where(x < 0, torch.ceil(x) - x, x - torch.floor(x))


@opsmith.op(**declare, outputs="y")
def magnitude(x: Vector) -> Vector:
    return x.abs()


@magnitude.backward(cpu=KERNELS)
def magnitude_backward(grad_y: Vector, x: Vector) -> Vector:
    return grad_y * torch.sign(x)


@opsmith.op(**declare, outputs="y")
def limited(x: Vector, most: float = 1.0) -> Vector:
    return torch.nn.functional.hardtanh(x, -most, most) if most >= 0 else x.clone()


@limited.backward(cpu=KERNELS)
def limited_backward(grad_y: Vector, x: Vector, most: float) -> Vector:
    return torch.where((x > -most) & (x < most), grad_y, 0.0) if most >= 0 else grad_y.clone()


@opsmith.op(**declare, outputs="y")
def rectified(x: Vector) -> Vector:
    return torch.relu(x)


@rectified.backward(cpu=KERNELS)
def rectified_backward(grad_y: Vector, x: Vector) -> Vector:
    return torch.where(x > 0, grad_y, 0.0)
