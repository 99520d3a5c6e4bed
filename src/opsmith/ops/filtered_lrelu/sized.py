"""The operator with all its sizes said, and its gradient."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Float32
from torch import Tensor

import opsmith
from opsmith.ops.bias_act import bias_activation, bias_activation_backward
from opsmith.ops.upfirdn2d.sized import check_filtering, upfirdn2d_sized, upfirdn2d_transposed

__all__ = ["filtered_lrelu_backward", "filtered_lrelu_sized"]


@opsmith.op(
    cpu="filtered_lrelu.cpp",
    cuda="filtered_lrelu.cu",
    outputs="y",
    nondifferentiable=("fu", "fd"),
    preserve_format={"y": "x"},
    batch=("N", "C"),
)
def filtered_lrelu_sized(
    x: Float[Tensor, "N C height width"],
    fu: Float32[Tensor, "UH UW"],
    fd: Float32[Tensor, "DH DW"],
    b: Float[Tensor, "C"] | None,
    out_height: int,
    out_width: int,
    up: int = 1,
    down: int = 1,
    pad_y: int = 0,
    pad_x: int = 0,
    separable_up: bool = False,
    separable_down: bool = False,
    flip: bool = False,
    gain: float = 1.0,
    slope: float = 0.2,
    clamp: float | None = None,
) -> Float[Tensor, "N C out_height out_width"]:
    """Add a bias, upsample, apply leaky ReLU, downsample; `filtered_lrelu` is the way to it for people.

    In terms of upfirdn2d_sized, whose conventions for filters these are:

        u = up ** 2 * upfirdn(x + b, fu, up, padding),  y = upfirdn(clamped(gain * lrelu(u)), fd, down)

    Of u there are the rows and columns that y needs. The bias is not added to the padding.
    """
    u = _upsampled(x, fu, fd, b, (out_height, out_width), up, down, (pad_y, pad_x), separable_up, separable_down, flip)
    y: Tensor = bias_activation.reference(u, None, "lrelu", slope, gain, clamp)
    sizes, factors = (*u.shape[2:], out_height, out_width), (1, 1, down, down, 0, 0)
    result: Tensor = upfirdn2d_sized.reference(y, fd, *sizes, *factors, separable_down, flip, 1.0)
    return result


@filtered_lrelu_sized.backward(
    cpu="filtered_lrelu.cpp",
    cuda="filtered_lrelu.cu",
    nondifferentiable=("fu", "fd"),
    preserve_format={"grad_x": "x"},
)
def filtered_lrelu_backward(
    grad_y: Float[Tensor, "N C out_height out_width"],
    x: Float[Tensor, "N C height width"],
    fu: Float32[Tensor, "UH UW"],
    fd: Float32[Tensor, "DH DW"],
    b: Float[Tensor, "C"] | None,
    out_height: int,
    out_width: int,
    up: int,
    down: int,
    pad_y: int,
    pad_x: int,
    separable_up: bool,
    separable_down: bool,
    flip: bool,
    gain: float,
    slope: float,
    clamp: float | None,
    needs_grad_b: bool,
) -> tuple[Float[Tensor, "N C height width"], Float[Tensor, "C"]]:
    """The gradients, from the input again: each filter's transposed, and between them the slope at u.

    u is upsampled a second time: what the forward keeps is x, where PyTorch would keep u, up ** 2 times as large, for each
    of its steps. The second gradient goes through this body.
    """
    size = (out_height, out_width)
    u = _upsampled(x, fu, fd, b, size, up, down, (pad_y, pad_x), separable_up, separable_down, flip)
    sizes, factors = (*u.shape[2:], out_height, out_width), (1, 1, down, down, 0, 0)
    grad_u = upfirdn2d_transposed.reference(grad_y, fd, *sizes, *factors, separable_down, flip, 1.0)
    grad_u, _ = bias_activation_backward.reference(grad_u, u, None, "lrelu", slope, gain, clamp, False)
    sizes, factors = (*x.shape[2:], *u.shape[2:]), (up, up, 1, 1, pad_y, pad_x)
    grad_x: Tensor = upfirdn2d_transposed.reference(grad_u, fu, *sizes, *factors, separable_up, flip, float(up**2))
    return grad_x, grad_x.sum((0, 2, 3)) if needs_grad_b else x.new_empty(0)


@filtered_lrelu_sized.examples
def _examples() -> list[dict[str, object]]:
    """What the arguments' defaults do not show: factors, paddings, kinds of filters, and a limit that is reached."""
    random = torch.Generator().manual_seed(0)
    x, b = torch.randn(2, 3, 9, 12, generator=random), torch.randn(3, generator=random)
    full, separable = (torch.randn(size, generator=random) / 3 for size in ((4, 3), (2, 8)))
    names = ("out_height", "out_width", "up", "down", "pad_y", "pad_x", "separable_up", "separable_down", "flip")
    numbers = (
        (separable, separable, (9, 12, 2, 2, 7, 6, True, True, False)),
        (full, separable, (5, 7, 2, 4, 3, 9, False, True, True)),
        (separable, full, (6, 17, 3, 2, -2, 7, True, False, False)),
    )
    calls: list[dict[str, object]] = []
    for fu, fd, values in numbers:
        said = dict(zip(names, values, strict=True))
        calls.append({"x": x, "fu": fu, "fd": fd, "b": b, **said, "gain": math.sqrt(2), "slope": 0.2, "clamp": 0.75})
    return [*calls[:2], {**calls[2], "b": None, "clamp": None}]


_Pair = tuple[int, int]


def _upsampled(
    x: Tensor,
    fu: Tensor,
    fd: Tensor,
    b: Tensor | None,
    size: _Pair,
    up: int,
    down: int,
    pad: _Pair,
    separable_up: bool,
    separable_down: bool,
    flip: bool,
) -> Tensor:
    """Return u; raises ArgumentValueError for numbers that mean nothing."""
    check_filtering(fu, (up, up), (1, 1), pad, separable=separable_up)
    check_filtering(fd, (1, 1), (down, down), (0, 0), separable=separable_down)
    taps = (fd.shape[1], fd.shape[1]) if separable_down else fd.shape
    height, width = ((max(size[axis], 1) - 1) * down + taps[axis] for axis in (0, 1))
    biased = x if b is None else x + b[:, None, None]
    sizes, factors = (*x.shape[2:], height, width), (up, up, 1, 1, *pad)
    u: Tensor = upfirdn2d_sized.reference(biased, fu, *sizes, *factors, separable_up, flip, float(up**2))
    return u
