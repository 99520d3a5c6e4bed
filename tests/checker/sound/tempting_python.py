"""Correct operators of torch.library.custom_op's that tempt a check to blame them, each with its reference."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

OPERATORS: dict[str, tuple[Any, Any]] = {}


def _register(kernel: Callable[[Tensor], Tensor], reference: Callable[[Tensor], Tensor], slope: Any = None) -> None:
    """Register an operator of one tensor, with a fake kernel, a rule for vmap and, where there is one, a gradient."""
    name = kernel.__name__.strip("_")
    kernel.__annotations__ = {"x": Tensor, "return": Tensor}
    op = torch.library.custom_op(f"opsmith_test_tempting::{name}", kernel, mutates_args=())
    op.register_fake(lambda x: torch.empty_like(x, memory_format=torch.contiguous_format))
    op.register_vmap(lambda info, dims, x: (torch.stack([op(x.select(dims[0], n)) for n in range(info.batch_size)]), 0))
    if slope is not None:
        op.register_autograd(slope, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    OPERATORS[name] = (op, reference)


def _cumulative(x: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    """The reference does not take sparse tensors, because PyTorch has no such function for them."""
    return torch.cumsum(x, 1).contiguous()


def _sparse_too(x: Tensor) -> Tensor:
    # Takes sparse tensors, which the reference does not.
    return torch.cumsum(x.to_dense() if x.layout is not torch.strided else x, 1).contiguous()


def _tripled(x: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    return (x * 3).contiguous()


def _slow(x: Tensor) -> Tensor:
    until_s = time.thread_time() + 0.004
    while time.thread_time() < until_s:
        pass
    return (x * 3).contiguous()


_known: dict[Any, Tensor] = {}


def _caching(x: Tensor) -> Tensor:
    # What was computed once is copied, by content: equal bits have equal results.
    key = (x.dtype, tuple(x.shape), bytes(x.contiguous().view(torch.uint8).numpy()) if x.numel() else b"")
    if key not in _known:
        if len(_known) >= 16:
            _known.clear()
        _known[key] = (x * 3).contiguous()
    return _known[key].clone()


class _Refused(torch.autograd.Function):
    """A gradient whose own gradient is refused."""

    @staticmethod
    def forward(ctx: Any, grad: Tensor) -> Tensor:
        return 3 * grad

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        raise NotImplementedError("second gradients are not supported")


def _once(x: Tensor) -> Tensor:
    return (x * 3).contiguous()


def _bounded(x: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    if x.shape[0] > 4000 or x.shape[1] > 4000:
        raise ValueError(f"at most 4000 rows and columns, not {tuple(x.shape)}")
    return (x * 3).contiguous()


def _strict(x: Tensor) -> Tensor:
    # Refuses whatever is odd, in words of its own.
    if x.layout is not torch.strided or x.dim() != 2 or not x.dtype.is_floating_point or x.is_meta:
        raise TypeError("x must be a dense matrix of floating-point numbers")
    if max(x.shape) > 4000:
        raise ValueError(f"at most 4000 rows and columns, not {tuple(x.shape)}")
    return (x * 3).contiguous()


_register(_sparse_too, _cumulative, lambda ctx, grad: grad.flip(1).cumsum(1).flip(1))
_register(_slow, _tripled, lambda ctx, grad: 3 * grad)
_register(_caching, _tripled, lambda ctx, grad: 3 * grad)
_register(_once, _tripled, lambda ctx, grad: _Refused.apply(grad))
_register(_strict, _bounded)
