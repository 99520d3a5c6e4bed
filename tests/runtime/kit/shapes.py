"""Operators whose sizes are computed, anonymous or variadic."""

from __future__ import annotations

import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor

import opsmith


@opsmith.op(cpu="shapes.cpp")
def split_gates(gates: Float[Tensor, "B 3*S"], rest: Float[Tensor, "S+I"]) -> Float[Tensor, "B S I"]:
    """The middle gate times the last I numbers: S is solved from the gates, I from the rest."""
    size = gates.shape[1] // 3
    return gates[:, size : 2 * size, None] * rest[size:]


@opsmith.op(cpu="shapes.cpp")
def upfir(
    x: Float[Tensor, "B H"], taps: Float32[Tensor, "kh"], up: int, down: int, pad0: int, pad1: int
) -> Float[Tensor, "B (H*up+pad0+pad1-kh)//down+1"]:
    """Upsample by zeros, pad, filter and downsample: upfirdn2d in one dimension, for positive sizes."""
    stuffed = torch.zeros(x.shape[0], x.shape[1], up, dtype=x.dtype)
    stuffed[:, :, 0] = x
    padded = torch.nn.functional.pad(stuffed.flatten(1), (pad0, pad1))
    return (padded.unfold(1, taps.shape[0], 1) * taps.to(x.dtype)).sum(-1)[:, ::down]


@opsmith.op(cpu="shapes.cpp")
def row_sums(x: Float[Tensor, "*batch N"]) -> Float[Tensor, "*batch"]:
    """Sum over the last dimension, whatever is in front."""
    return x.double().sum(-1).to(x.dtype)


@opsmith.op(cpu="shapes.cpp")
def outer(x: Float[Tensor, "*batch N"], y: Float[Tensor, "*batch M"]) -> Float[Tensor, "*batch N M"]:
    """The outer product of the last dimensions."""
    return x[..., :, None] * y[..., None, :]


@opsmith.op(cpu="shapes.cpp")
def middle(x: Float[Tensor, "A *batch N"]) -> Float[Tensor, "N *batch A"]:
    """Exchange the first and the last dimension around a group."""
    return x.transpose(0, -1).contiguous()


@opsmith.op(cpu="shapes.cpp")
def column_count(x: Float[Tensor, "... N"]) -> Int64[Tensor, ""]:
    """How many numbers there are, as a 0-dimensional tensor; the leading dimensions are anonymous."""
    return torch.tensor(x.numel())


@opsmith.op(cpu="shapes.cpp")
def affine(x: Float[Tensor, "N"], factor: Float[Tensor, ""]) -> Float[Tensor, "N"]:
    """Multiply by a 0-dimensional tensor."""
    return x * factor


@opsmith.op(cpu="shapes.cpp", outputs=("value", "index"))
def row_max(x: Float[Tensor, "B _"]) -> tuple[Float[Tensor, "B"], Int64[Tensor, "B"]]:
    """The first largest number of each row, and where it is."""
    value, index = x.max(1)
    return value, index


@opsmith.op(cpu="shapes.cpp", preserve_format={"out": "x"})
def halve(x: Float[Tensor, "B C H W"], channels: int) -> Float[Tensor, "B channels H//2 W//2"]:
    """Every second pixel of the first channels, in the input's memory format."""
    return x[:, :channels, : x.shape[2] // 2 * 2 : 2, : x.shape[3] // 2 * 2 : 2]


@opsmith.op(cpu="shapes.cpp", contiguous="x")
def stride_of_rows(x: Float[Tensor, "B N"]) -> Int64[Tensor, "1"]:
    """The row stride that a kernel sees which asks for a contiguous input."""
    return torch.tensor([x.shape[1]])
