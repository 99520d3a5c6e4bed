"""Convolution, bias, residual and ReLU in one kernel of cuDNN, for training too."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["conv_relu", "fuses"]

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
    y: Tensor = _Convolution.apply(x, weight, bias, residual, stride, padding)  # type: ignore[no-untyped-call]
    if y.requires_grad:
        y = _ReLU.apply(y)  # type: ignore[no-untyped-call]
    return y


class _Convolution(torch.autograd.Function):
    """Computes all of it; its gradients are those of what comes before the ReLU."""

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
        wanted = ctx.needs_input_grad[:3]
        gradients: tuple[Tensor | None, ...] = (None, None, None)
        if any(wanted):
            gradients = torch.ops.aten.convolution_backward(
                gradient, x, weight, [len(weight)], *ctx.geometry, False, (0, 0), 1, wanted
            )
        return *gradients, gradient if ctx.needs_input_grad[3] else None, None, None


class _ReLU(torch.autograd.Function):
    """Has been computed already, and keeps its result, which the next layer keeps as well.

    A node of its own, so that the gradient of its result is freed before those of the convolution take memory.
    """

    @staticmethod
    def forward(ctx: Any, y: Tensor) -> Tensor:
        ctx.mark_dirty(y)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        passed: Tensor = torch.ops.aten.threshold_backward(gradient, y, 0)
        return passed
