"""Operators that lose digits of small elements beside large ones, declared once with the defects and once without."""

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith

FLAGS = ("-DPLANTED",) if __name__.endswith("_planted") else ()
KERNELS = opsmith.view("digits.cpp", flags=FLAGS)
Vector = Float[Tensor, "N"]
Matrix = Float[Tensor, "B N"]
Rows = Float[Tensor, "B"]
declare = {"cpu": KERNELS, "namespace": __name__}


@opsmith.op(**declare)
def log_one_plus(x: Vector) -> Vector:
    return torch.log1p(x.abs())


@opsmith.op(**declare)
def exp_minus_one(x: Vector) -> Vector:
    return torch.expm1(x)


@opsmith.op(**declare)
def clipped_sigmoid(x: Vector) -> Vector:
    return torch.sigmoid(x)


@opsmith.op(**declare)
def flat_gelu(x: Vector) -> Vector:
    return torch.nn.functional.gelu(x)


@opsmith.op(**declare)
def quotient_tanh(x: Vector) -> Vector:
    return torch.tanh(x)


@opsmith.op(**declare)
def cut_softplus(x: Vector) -> Vector:
    return torch.nn.functional.softplus(x)


@opsmith.op(**declare)
def silu(x: Vector) -> Vector:
    return torch.nn.functional.silu(x)


@opsmith.op(**declare)
def log_sigmoid(x: Vector) -> Vector:
    return torch.nn.functional.logsigmoid(x)


@opsmith.op(**declare)
def inverse_sinh(x: Vector) -> Vector:
    return torch.asinh(x)


@opsmith.op(**declare)
def elu(x: Vector) -> Vector:
    return torch.nn.functional.elu(x)


@opsmith.op(**declare)
def narrow_exp(x: Vector) -> Vector:
    return x * torch.exp(-x.abs())


@opsmith.op(**declare)
def pruned_softmax(x: Matrix) -> Matrix:
    return torch.softmax(x, 1)


@opsmith.op(**declare)
def log_shares(x: Matrix) -> Matrix:
    return torch.log1p(x.abs() / x.abs().sum(1, keepdim=True).clamp(min=1e-30))


@opsmith.op(**declare)
def centered(x: Matrix, scale: Rows) -> Matrix:
    return torch.expm1(x) * scale[:, None]


@opsmith.op(**declare, outputs="y")
def softplus_slope(x: Vector) -> Vector:
    return torch.nn.functional.softplus(x)


@softplus_slope.backward(cpu=KERNELS)
def softplus_slope_backward(grad_y: Vector, x: Vector) -> Vector:
    return grad_y * torch.sigmoid(x)


@opsmith.op(**declare, outputs="y")
def arctan_slope(x: Vector) -> Vector:
    return torch.atan(x)


@arctan_slope.backward(cpu=KERNELS)
def arctan_slope_backward(grad_y: Vector, x: Vector, y: Vector) -> Vector:
    return grad_y / (1 + x * x)
