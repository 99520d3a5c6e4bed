"""Operators made with torch.library.custom_op: their defects lie in what is registered. Run twice: see `load.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

PLANTED = __name__.endswith("_planted")
# Each with its reference, whose annotations say what it takes.
OPERATORS: dict[str, tuple[Any, Callable[..., Any]]] = {}


def square(x: Float[Tensor, "N M"]) -> Float[Tensor, "N M"]:
    """The reference of all operators here."""
    return x * x


def _forward(x: Tensor) -> Tensor:
    return x * x


def _fake(x: Tensor) -> Tensor:
    # Of x * x: the strides follow those of x.
    return torch.empty_like(x)


def _backward(ctx: Any, grad: Tensor) -> Tensor:
    return 2 * ctx.saved_tensors[0] * grad


def _vmap(op: Any) -> Callable[..., Any]:
    return lambda info, in_dims, x: (op(x.movedim(in_dims[0], 0).flatten(0, 1)).unflatten(0, (info.batch_size, -1)), 0)


def _setup(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def make(
    name: str,
    forward: Callable[..., Any] = _forward,
    fake: Callable[..., Any] | None = _fake,
    backward: Callable[..., Any] = _backward,
    vmap: Callable[..., Any] | None = _vmap,
) -> None:
    """Register an operator that squares its argument, but for what is replaced."""

    def kernel(x: Tensor) -> Tensor:
        return forward(x)

    kernel.__annotations__ = {"x": Tensor, "return": Tensor}
    op = torch.library.custom_op(f"{__name__}::{name}", kernel, mutates_args=())
    op.register_autograd(backward, setup_context=_setup)
    if fake is not None:
        op.register_fake(fake)
    if vmap is not None:
        op.register_vmap(vmap(op))
    OPERATORS[name] = (op, square)


def choose(defect: Any, sound: Any) -> Any:
    """Return what this run of the file registers."""
    return defect if PLANTED else sound


def _scribbling(x: Tensor) -> Tensor:
    out = x * x
    x.add_(1)
    return out


_buffers: dict[Any, Tensor] = {}


def _buffered(x: Tensor) -> Tensor:
    out = _buffers.setdefault((x.shape, x.dtype, x.device, x.stride()), torch.empty_like(x))
    return torch.mul(x, x, out=out)


_kept: list[Tensor] = []


def _hoarding(x: Tensor) -> Tensor:
    _kept.append(torch.ones(2000))
    return x * x


def _moody(x: Tensor) -> Tensor:
    # Every call rounds in another way.
    out = x * x
    _moods.append(0)
    return out * (1 + (len(_moods) % 3) * torch.finfo(x.dtype).eps)


_moods: list[int] = []


def _wrong_vmap(op: Any) -> Callable[..., Any]:
    # Takes the first dimension for the batch, wherever it is, and then puts it last.
    return lambda info, in_dims, x: (op(x.movedim(in_dims[0], 0).flatten(0, 1)).unflatten(0, (info.batch_size, -1)), 2)


make("py_mutates", choose(_scribbling, _forward))
make("py_buffer", choose(_buffered, _forward))
make("py_hoards", choose(_hoarding, _forward))
make("py_moody", choose(_moody, _forward))
make("py_fake_dtype", fake=choose(lambda x: torch.empty_like(x, dtype=torch.int32), _fake))
make("py_fake_shape", fake=choose(lambda x: x.new_empty(x.shape[0], x.shape[1] + 1), _fake))
make("py_fake_stride", fake=choose(lambda x: x.new_empty(x.shape[::-1]).t(), _fake))
make("py_fake_device", fake=choose(lambda x: torch.empty_like(x, device="cpu" if x.is_cuda else "meta"), _fake))
make("py_fake_missing", fake=choose(None, _fake))
make("py_factor", backward=choose(lambda ctx, grad: ctx.saved_tensors[0] * grad, _backward))
make("py_second", backward=choose(lambda ctx, grad: 2 * ctx.saved_tensors[0].detach() * grad, _backward))
make("py_no_vmap", vmap=choose(None, _vmap))
make("py_wrong_vmap", vmap=choose(_wrong_vmap, _vmap))


class _Square(torch.autograd.Function):
    """A function, and no operator of the dispatcher's; forward-mode gradients are its own."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return 2 * ctx.saved_tensors[0] * grad

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        return torch.zeros_like(tangent) if PLANTED else 2 * ctx.saved_tensors[0] * tangent


OPERATORS["py_jvp"] = (_Square.apply, square)
