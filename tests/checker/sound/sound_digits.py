"""Correct operators that round elsewhere than their references: one pass, other orders, compensated or better formulas."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import opsmith

Vector = Float[Tensor, "N"]
Matrix = Float[Tensor, "B N"]
Rows = Float[Tensor, "B"]


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype is torch.float64 else x.float()


@opsmith.op(cpu="sound_digits.cpp")
def online_softmax(x: Matrix) -> Matrix:
    return torch.softmax(x, 1)


@opsmith.op(cpu="sound_digits.cpp")
def flash_attention(q: Float[Tensor, "M K"], k: Float[Tensor, "N K"], v: Float[Tensor, "N D"]) -> Float[Tensor, "M D"]:
    weights = torch.softmax(_wide(q) @ _wide(k).t(), 1)
    return (weights @ _wide(v)).to(q.dtype)


@opsmith.op(cpu="sound_digits.cpp")
def kahan_sum(x: Matrix) -> Rows:
    return x.sum(1)


@opsmith.op(cpu="sound_digits.cpp")
def pairwise_sum(x: Matrix) -> Rows:
    return x.sum(1)


@opsmith.op(cpu="sound_digits.cpp")
def gelu_of_erfc(x: Vector) -> Vector:
    return torch.nn.functional.gelu(x)


@opsmith.op(cpu="sound_digits.cpp")
def kahan_log1p(x: Vector) -> Vector:
    return torch.log1p(x.abs())


@opsmith.op(cpu="sound_digits.cpp")
def tanh_of_expm1(x: Vector) -> Vector:
    return torch.tanh(x)


@opsmith.op(cpu="sound_digits.cpp")
def merged_variance(x: Matrix) -> Rows:
    return x.var(1, correction=0)


@opsmith.op(cpu="sound_digits.cpp")
def first_largest(x: Matrix) -> Int64[Tensor, "B"]:
    return x.argmax(1) if x.shape[1] else x.new_zeros(x.shape[0], dtype=torch.int64)


@opsmith.op(cpu="sound_digits.cpp")
def counts(x: Vector, low: float = -1.0, high: float = 2.0) -> Int64[Tensor, "12"]:
    place = ((x - low) / ((high - low) / 12)).floor()
    inside = (x >= low) & (x <= high)
    return torch.bincount(place[inside].clamp(0, 11).long(), minlength=12)


@opsmith.op(cpu="sound_digits.cpp")
def softplus(x: Vector) -> Vector:
    return torch.nn.functional.softplus(x)


@opsmith.op(cpu="sound_digits.cpp")
def magic_round(x: Vector) -> Vector:
    return torch.round(x)


@opsmith.op(cpu="sound_digits.cpp")
def scanned_sum(x: Matrix) -> Matrix:
    return torch.cumsum(x, 1)


@opsmith.op(cpu="sound_digits.cpp")
def log_softmax(x: Matrix) -> Matrix:
    return torch.log_softmax(x, 1)


@opsmith.op(cpu="sound_digits.cpp", outputs="y")
def slope_of_tanh(x: Vector) -> Vector:
    return torch.tanh(x)


@slope_of_tanh.backward(cpu="sound_digits.cpp")
def slope_of_tanh_backward(grad_y: Vector, x: Vector) -> Vector:
    return grad_y / torch.cosh(x).square()
