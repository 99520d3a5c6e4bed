"""Correct operators that no check may complain of, of kinds that the planted ones are not."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int, Int64
from torch import Tensor

import opsmith

Vector = Float[Tensor, "N"]
Matrix = Float[Tensor, "B N"]
Rows = Float[Tensor, "B"]


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype is torch.float64 else x.float()


@opsmith.op(cpu="sound.cpp")
def layer_norm(x: Matrix, weight: Vector | None = None, bias: Vector | None = None, eps: float = 1e-5) -> Matrix:
    return torch.nn.functional.layer_norm(x, x.shape[1:], weight, bias, eps)


@opsmith.op(cpu="sound.cpp")
def rms_norm(x: Matrix, weight: Vector, eps: float = 1e-5) -> Matrix:
    wide = _wide(x)
    return (wide * torch.rsqrt(wide.square().mean(1, keepdim=True) + eps) * _wide(weight)).to(x.dtype)


@opsmith.op(cpu="sound.cpp")
def log_sum_exp(x: Matrix) -> Rows:
    return torch.logsumexp(x, 1)


@opsmith.op(cpu="sound.cpp")
def running_sum(x: Matrix) -> Matrix:
    return torch.cumsum(x, 1)


@opsmith.op(cpu="sound.cpp")
def arg_max(x: Matrix) -> Int64[Tensor, "B"]:
    return x.argmax(1)


@opsmith.op(cpu="sound.cpp")
def convolve(x: Float[Tensor, "B C H W"], w: Float[Tensor, "O C 3 3"]) -> Float[Tensor, "B O H-2 W-2"]:
    return torch.nn.functional.conv2d(x, w)


@opsmith.op(cpu="sound.cpp")
def embed(table: Float[Tensor, "V N"], index: Int[Tensor, "M"]) -> Float[Tensor, "M N"]:
    return torch.nn.functional.embedding(index.long(), table)


@embed.examples
def embed_examples():
    yield torch.randn(50, 7), torch.tensor([3, 49, 0, 3, 17], dtype=torch.int32)
    yield torch.randn(5, 3), torch.tensor([4])


@opsmith.op(cpu="sound.cpp", mutates="x")
def add_into(x: Matrix, y: Matrix, alpha: float = 2.0) -> None:
    x.add_(y, alpha=alpha)


@opsmith.op(cpu="sound.cpp")
def bits(x: Int[Tensor, "N"], y: Int[Tensor, "N"]) -> Int[Tensor, "N"]:
    return (x & y) ^ (x >> 1)


@opsmith.op(cpu="sound.cpp")
def weighted(xs: list[Matrix], weight: Vector | None = None, halve: bool = False) -> Matrix:
    total = torch.stack([_wide(x) for x in xs]).sum(0)
    total = total if weight is None else total * weight
    return (total / 2 if halve else total).to(xs[0].dtype)


@opsmith.op(cpu="sound.cpp")
def clamp(x: Vector, low: float = -1.0, high: float = 1.0) -> Vector:
    return x.clamp(low, high)


@opsmith.op(cpu="sound.cpp")
def sort_rows(x: Matrix) -> Matrix:
    return x.sort(1).values


@opsmith.op(cpu="sound.cpp")
def variance(x: Matrix) -> Rows:
    return x.var(1, correction=0)


@opsmith.op(cpu="sound.cpp", preserve_format={"out": "x"})
def pool(x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H//2 W//2"]:
    return torch.nn.functional.avg_pool2d(x, 2)


@opsmith.op(cpu="sound.cpp")
def gelu(x: Vector) -> Vector:
    return torch.nn.functional.gelu(x)


@opsmith.op(cpu=opsmith.native("sound_native.cpp"))
def product(x: Float[Tensor, "B I"], y: Float[Tensor, "I O"]) -> Float[Tensor, "B O"]:
    return x @ y


@opsmith.op(cpu=opsmith.native("sound_native.cpp"))
def over(x: Float[Tensor, "B N"]) -> Float[Tensor, "K N"]:
    return x[x[:, 0] > x[:, -1]]
