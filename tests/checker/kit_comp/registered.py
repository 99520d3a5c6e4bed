"""Operators that are registered at the wrong places, and undeclared side effects."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_library = torch.library.Library("kit_registered", "DEF")


class _Cube(torch.autograd.Function):
    """x^3, with its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return (x * x * x).contiguous()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad


def _define(name: str, kernel: Any) -> Any:
    _library.define(f"{name}(Tensor x) -> Tensor")
    _library.impl(name, kernel, "CPU")
    _library.impl(name, lambda x: x.new_empty(x.shape), "Meta")
    return getattr(torch.ops.kit_registered, name)


def _scribbles(x: Tensor) -> Tensor:
    result = (x * x * x).contiguous()
    x.zero_()
    return result


gradient_at_cpu = _define("gradient_at_cpu", _Cube.apply)
# PyTorch does not keep autograd from the operators that a kernel calls.
gradient_by_chance = _define("gradient_by_chance", lambda x: (x * x * x).contiguous())
forward_only = _define("forward_only", lambda x: (x.detach() ** 3).contiguous())
scribbles = _define("scribbles", _scribbles)
