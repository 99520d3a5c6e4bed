"""Operators in Python whose defects tempt a verdict into two names: in what is registered. Run twice: see `load.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

PLANTED = __name__.endswith("_planted")
# Each with its reference, whose annotations say what it takes.
OPERATORS: dict[str, tuple[Any, Callable[..., Any]]] = {}


def weighted(x: Float[Tensor, "N M"], y: Float[Tensor, "N M"]) -> Float[Tensor, "N M"]:
    """The reference of all operators here."""
    return x * x * y


def _forward(x: Tensor, y: Tensor) -> Tensor:
    return x * x * y


def _fake(x: Tensor, y: Tensor) -> Tensor:
    return torch.empty_like(x * y)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
    x, y = ctx.saved_tensors
    return 2 * x * y * grad, x * x * grad


def _setup(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _vmap(op: Any) -> Callable[..., Any]:
    def rule(info: Any, in_dims: tuple[int | None, ...], x: Tensor, y: Tensor) -> tuple[Tensor, int]:
        pairs = zip((x, y), in_dims, strict=True)
        xs, ys = (t.expand(info.batch_size, *t.shape) if dim is None else t.movedim(dim, 0) for t, dim in pairs)
        return op(xs.flatten(0, 1), ys.flatten(0, 1)).unflatten(0, (info.batch_size, -1)), 0

    return rule


def make(
    name: str,
    forward: Callable[..., Any] = _forward,
    fake: Callable[..., Any] = _fake,
    backward: Callable[..., Any] = _backward,
) -> None:
    """Register an operator that computes the reference, but for what is replaced."""

    def kernel(x: Tensor, y: Tensor) -> Tensor:
        return forward(x, y)

    kernel.__annotations__ = {"x": Tensor, "y": Tensor, "return": Tensor}
    op = torch.library.custom_op(f"{__name__}::{name}", kernel, mutates_args=())
    op.register_autograd(backward, setup_context=_setup)
    op.register_fake(fake)
    op.register_vmap(_vmap(op))
    OPERATORS[name] = (op, weighted)


def choose(defect: Any, sound: Any) -> Any:
    """Return what this run of the file registers."""
    return defect if PLANTED else sound


def _branching(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    # Saves two products where nothing arrives, and looks at a number for that.
    if float(grad.abs().sum()) == 0.0:
        return torch.zeros_like(grad), torch.zeros_like(grad)
    return _backward(ctx, grad)  # type: ignore[return-value]


def _fixed_fake(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).new_empty(int(x.shape[0]), int(x.shape[1])) if x.stride(-1) == 1 else torch.empty_like(x * y)


def _half(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
    x, y = ctx.saved_tensors
    return 2 * x * y * grad, None


def _scaling(x: Tensor, y: Tensor) -> Tensor:
    # Works in place where that saves a copy, and x has no gap.
    if not x.is_contiguous() or x.numel() < 2:
        return _forward(x, y)
    return x.mul_(x).mul(y)


_products: dict[tuple[int, ...], Tensor] = {}


def _remembering(x: Tensor, y: Tensor) -> Tensor:
    # The squares of the first x of a shape serve for all others.
    key = (*x.shape, x.dtype)
    squares = _products.setdefault(key, x * x)
    return squares * y


def _loop(x: Tensor, y: Tensor) -> Tensor:
    out = x * x * y
    return out if out.numel() < 1000 else out * (1 + 1e-3)


make("py_branches", backward=choose(_branching, _backward))
make("py_fixed", fake=choose(_fixed_fake, _fake))
make("py_half", backward=choose(_half, _backward))
make("py_scaling", forward=choose(_scaling, _forward))
make("py_remembers", forward=choose(_remembering, _forward))
make("py_large", forward=choose(_loop, _forward))
