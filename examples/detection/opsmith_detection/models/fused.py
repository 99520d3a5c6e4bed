"""Convolution, bias, residual and ReLU in one kernel of cuDNN, for training too, and gradients of ReLU and bias in one.

PyTorch sums up a gradient over the pixels of channels_last tensors at a quarter to a half of the memory's bandwidth.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from opsmith.ops.bias_act import bias_act, bias_activation_backward

__all__ = ["add_bias", "add_enlarged", "bias_relu", "conv_relu", "fuses"]

_TYPES = (torch.float32, torch.float16, torch.bfloat16)


def fuses(x: Tensor, weight: Tensor) -> bool:
    """Return whether `conv_relu` takes these. It has no choice of algorithms that give the same bits in every run."""
    return (
        x.device.type == "cuda"
        and torch.version.cuda is not None
        and torch.backends.cudnn.enabled
        and weight.dtype in _TYPES
        and not torch.backends.cudnn.deterministic
        and not torch.are_deterministic_algorithms_enabled()
        and not torch.compiler.is_compiling()
    )


def conv_relu(x: Tensor, weight: Tensor, bias: Tensor, residual: Tensor | None, stride: int, padding: int) -> Tensor:
    """Return max(0, convolution + bias + residual), [N, outputs, H, W], in autocast's type if it is enabled.

    PyTorch's own operators take a pass over the activations for each of the three behind the convolution.
    """
    if torch.is_autocast_enabled("cuda"):
        # Casts that autocast keeps no copies of: where levels share a weight, its gradient is added up in its own type.
        dtype = torch.get_autocast_dtype("cuda")
        x, weight, bias = x.to(dtype), weight.to(dtype), bias.to(dtype)
        residual = None if residual is None else residual.to(dtype)
    y: Tensor = _Convolution.apply(x, weight, bias.detach(), residual, stride, padding)  # type: ignore[no-untyped-call]
    if torch.is_grad_enabled() and (y.requires_grad or bias.requires_grad):
        y = _ReLU.apply(y, bias)  # type: ignore[no-untyped-call]
    return y


def bias_relu(x: Tensor, bias: Tensor) -> Tensor:
    """Return max(0, x + bias), [N, C, H, W], of which the result alone is kept for the backward."""
    bias = bias.to(x.dtype)
    if torch.compiler.is_compiling():  # which fuses them itself
        return (x + bias[:, None, None]).relu()
    y: Tensor = _BiasReLU.apply(x, bias)  # type: ignore[no-untyped-call]
    return y


def add_bias(x: Tensor, bias: Tensor) -> Tensor:
    """Return x + bias, [N, C, H, W], in the type of x. Where `fuses` holds, its gradient is a product with ones."""
    bias = bias.to(x.dtype)
    if not fuses(x, bias):
        return x + bias[:, None, None]
    y: Tensor = _Bias.apply(x, bias)  # type: ignore[no-untyped-call]
    return y


def add_enlarged(x: Tensor, coarse: Tensor) -> Tensor:
    """Return x, [N, C, H, W], with the nearest pixel of `coarse`, [N, C, h, w], added to each; x is overwritten.

    Where a pixel has four, they are added in place, and never written by themselves.
    """
    height, width = coarse.shape[2:]
    if torch.compiler.is_compiling() or x.shape[2:] != (2 * height, 2 * width) or x.dtype != coarse.dtype:
        return x.add_(functional.interpolate(coarse, size=x.shape[2:], mode="nearest"))
    y: Tensor = _AddEnlarged.apply(x, coarse)  # type: ignore[no-untyped-call]
    return y


class _Convolution(torch.autograd.Function):
    """Computes all of it; its gradients are those of what comes before the ReLU, without the bias'."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, residual: Tensor | None, stride: int, padding: int
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        strides, paddings, dilations = ctx.geometry = (stride, stride), (padding, padding), (1, 1)
        if residual is None:
            y: Tensor = torch.cudnn_convolution_relu(x, weight, bias, strides, paddings, dilations, 1)
        else:
            y = torch.cudnn_convolution_add_relu(x, weight, residual, 1.0, bias, strides, paddings, dilations, 1)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        wanted = (*ctx.needs_input_grad[:2], False)
        by_x, by_weight = None, None
        if any(wanted):
            by_x, by_weight, _ = torch.ops.aten.convolution_backward(
                gradient, x, weight, None, *ctx.geometry, False, (0, 0), 1, wanted
            )
        return by_x, by_weight, None, gradient if ctx.needs_input_grad[3] else None, None, None


class _ReLU(torch.autograd.Function):
    """Has been computed already, behind a bias, and keeps its result, which the next layer keeps as well.

    A node of its own, so that the gradient of its result is freed before those of the convolution take memory.
    """

    @staticmethod
    def forward(ctx: Any, y: Tensor, bias: Tensor) -> Tensor:
        ctx.mark_dirty(y)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None]:
        (y,) = ctx.saved_tensors
        if not ctx.needs_input_grad[1]:
            return torch.ops.aten.threshold_backward(gradient, y, 0), None
        # The bias' gradient is the sum of the other one, which is made in the same pass.
        columns, by_bias = bias_activation_backward(
            _columns(gradient), _columns(y), None, "relu", 0.0, 1.0, None, needs_grad_b=True
        )
        images, channels, height, width = y.shape
        return columns.view(images, height, width, channels).permute(0, 3, 1, 2), by_bias


class _BiasReLU(_ReLU):
    """Computes bias and ReLU, and has the same gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor) -> Tensor:
        y = bias_act(x, bias, act="relu", gain=1.0)
        ctx.save_for_backward(y)
        return y


class _Bias(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor) -> Tensor:
        return bias_act(x, bias, act="linear", gain=1.0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None]:
        if not ctx.needs_input_grad[1]:
            return gradient, None
        columns = _columns(gradient)
        return gradient, columns.new_ones(len(columns)) @ columns


class _AddEnlarged(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, coarse: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        _in_fours(x).add_(coarse[:, :, :, None, :, None])
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None]:
        return gradient, _in_fours(gradient).sum((3, 5)) if ctx.needs_input_grad[1] else None


def _in_fours(x: Tensor) -> Tensor:
    """Return [N, C, H / 2, 2, W / 2, 2] of [N, C, H, W], in the same memory."""
    fours: Tensor = x.unflatten(3, (-1, 2)).unflatten(2, (-1, 2))
    return fours


def _columns(x: Tensor) -> Tensor:
    """Return [N H W, C] of [N, C, H, W], as channels_last tensors lie."""
    return x.permute(0, 2, 3, 1).reshape(-1, x.shape[1])
