"""Defines the operator with explicit sizes, and its gradient."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from jaxtyping import Float, Float32
from torch import Tensor

import opsmith
from opsmith.ops.bias_act import bias_activation, bias_activation_backward
from opsmith.ops.filtered_lrelu.oversampling import (
    Activation,
    Oversampling,
    down_flops,
    down_resampling,
    transposed_flops,
    up_flops,
    up_resampling,
    upsampled,
)
from opsmith.ops.upfirdn2d.sized import upfirdn2d_sized, upfirdn2d_transposed

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
    oversampling: Oversampling,
    activation: Activation,
) -> Float[Tensor, "N C out_height out_width"]:
    """Add a bias, upsample, apply leaky ReLU, downsample. Call it through `filtered_lrelu`.

    In terms of upfirdn2d_sized, whose conventions for filters these are:

        u = up ** 2 * upfirdn(x + b, fu, up, padding),  y = upfirdn(clamped(gain * lrelu(u)), fd, down)

    Of u there are the rows and columns that y needs. The bias is not added to the padding.
    """
    o, a = oversampling, activation
    u = upsampled(x, fu, fd, b, o)
    y: Tensor = bias_activation.reference(u, None, "lrelu", a.slope, a.gain, a.clamp)
    result: Tensor = upfirdn2d_sized.reference(y, fd, down_resampling(u.shape[2:], o))
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
    oversampling: Oversampling,
    activation: Activation,
    needs_grad_b: bool,
) -> tuple[Float[Tensor, "N C height width"], Float[Tensor, "C"]]:
    """The gradients, from the input again: each filter's transposed, and between them the slope at u.

    u is upsampled a second time: what the forward keeps is x, where PyTorch would keep u, up ** 2 times as large, for
    each of its steps. The second gradient goes through this body.
    """
    o, a = oversampling, activation
    u = upsampled(x, fu, fd, b, o)
    grad_u = upfirdn2d_transposed.reference(grad_y, fd, down_resampling(u.shape[2:], o))
    grad_u, _ = bias_activation_backward.reference(grad_u, u, None, "lrelu", a.slope, a.gain, a.clamp, False)
    height, width = u.shape[2:]
    grad_x: Tensor = upfirdn2d_transposed.reference(grad_u, fu, up_resampling(x.shape[2:], height, width, o))
    return grad_x, grad_x.sum((0, 2, 3)) if needs_grad_b else x.new_empty(0)


@filtered_lrelu_sized.flops
def _flops(
    x: Tensor, fu: Tensor, fd: Tensor, b: Tensor | None, oversampling: Oversampling, activation: Activation
) -> int:
    images, size = x.shape[0] * x.shape[1], (x.shape[2], x.shape[3])
    return up_flops(images, size, fu, fd, oversampling) + down_flops(images, fd, oversampling)


@filtered_lrelu_backward.flops
def _backward_flops(
    grad_y: Tensor, x: Tensor, fu: Tensor, fd: Tensor, b: Tensor | None, o: Oversampling, a: Activation, _: bool
) -> int:
    images, size = x.shape[0] * x.shape[1], (x.shape[2], x.shape[3])
    return up_flops(images, size, fu, fd, o) + transposed_flops(images, size, fu, fd, o)


@filtered_lrelu_sized.examples
def _examples() -> list[tuple[object, ...]]:
    """What the arguments' defaults do not show: factors, paddings, kinds of filters, and a limit that is reached."""
    random = torch.Generator().manual_seed(0)
    x, b = torch.randn(2, 3, 9, 12, generator=random), torch.randn(3, generator=random)
    full, separable = (torch.randn(size, generator=random) / 3 for size in ((4, 3), (2, 8)))
    lrelu = Activation(math.sqrt(2), clamp=0.75)
    return [
        (x, separable, separable, b, Oversampling(9, 12, 2, 2, 7, 6, True, True, False), lrelu),
        (x, full, separable, b, Oversampling(5, 7, 2, 4, 3, 9, False, True, True), lrelu),
        (x, separable, full, None, Oversampling(6, 17, 3, 2, -2, 7, True, False, False), replace(lrelu, clamp=None)),
    ]
