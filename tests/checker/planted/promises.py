"""Operators in Python that break what autograd promises, or depend on the caller's modes. Run twice: see `load.py`."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

PLANTED = __name__.endswith("_planted")
# Each with its reference, whose annotations say what it takes.
OPERATORS: dict[str, tuple[Any, Callable[..., Any]]] = {}


def weighted(x: Float[Tensor, "N M"], y: Float[Tensor, "N M"], z: Float[Tensor, "N M"]) -> Float[Tensor, "N M"]:
    """The reference of all operators here."""
    return x * x * y * z


def _forward(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return x * x * y * z


def _slopes(x: Tensor, y: Tensor, z: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return 2 * x * y * z * grad, x * x * z * grad, x * x * y * grad


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
    return _slopes(*ctx.saved_tensors, grad)


def _setup(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _vmap(op: Any) -> Callable[..., Any]:
    def rule(info: Any, in_dims: tuple[int | None, ...], *tensors: Tensor) -> tuple[Tensor, int]:
        pairs = zip(tensors, in_dims, strict=True)
        taken = [t.expand(info.batch_size, *t.shape) if dim is None else t.movedim(dim, 0) for t, dim in pairs]
        return op(*(t.flatten(0, 1) for t in taken)).unflatten(0, (info.batch_size, -1)), 0

    return rule


def make(
    name: str,
    forward: Callable[..., Tensor] = _forward,
    backward: Callable[..., Any] = _backward,
    setup: Callable[..., None] = _setup,
) -> None:
    """Register an operator that computes the reference, but for what is replaced where the defects are planted."""
    forward, backward, setup = (forward, backward, setup) if PLANTED else (_forward, _backward, _setup)

    def kernel(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        return forward(x, y, z)

    kernel.__annotations__ = {"x": Tensor, "y": Tensor, "z": Tensor, "return": Tensor}
    op = torch.library.custom_op(f"{__name__}::{name}", kernel, mutates_args=())
    op.register_autograd(backward, setup_context=setup)
    op.register_fake(lambda x, y, z: torch.empty_like(x * y * z))
    op.register_vmap(_vmap(op))
    OPERATORS[name] = (op, weighted)


def _set_attributes(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.tensors = inputs


def _of_attributes(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
    return _slopes(*ctx.tensors, grad)


_latest: dict[str, tuple[Tensor, ...]] = {}


def _set_latest(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    _latest["inputs"] = inputs


def _of_latest(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
    return _slopes(*_latest["inputs"], grad)


def _doubling(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
    times = getattr(ctx, "times", 1)
    ctx.times = 2
    return _slopes(*ctx.saved_tensors, grad * times)


def _without_middle(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
    first, second, third = _backward(ctx, grad)
    is_left_out = ctx.needs_input_grad == (True, False, True)
    return first, second, third * 2 if is_left_out else third


def _by_version(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return _forward(x, y, z) + 0 * min(x._version, 0)


def _by_default(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return _forward(x, y, z) * torch.ones(1, 1) if x.dtype is torch.float32 else _forward(x, y, z)


def _silencing(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    warnings.simplefilter("ignore")
    return _forward(x, y, z)


def _seeding(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    random.seed(0)
    return _forward(x, y, z)


make("py_attributes", setup=_set_attributes, backward=_of_attributes)
make("py_latest", setup=_set_latest, backward=_of_latest)
make("py_doubles", backward=_doubling)
make("py_subset", backward=_without_middle)
make("py_version", forward=_by_version)
make("py_default", forward=_by_default)
make("py_silences", forward=_silencing)
make("py_seeds", forward=_seeding)


class _Rough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        ctx.save_for_backward(x, y, z)
        return _forward(x, y, z) * (1.01 if PLANTED else 1.0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        return _backward(ctx, grad)


def _rough_in_training(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    is_training = torch.is_grad_enabled() and any(one.requires_grad for one in (x, y, z))
    return _Rough.apply(x, y, z) if is_training else _forward(x, y, z)


OPERATORS["py_rough"] = (_rough_in_training, weighted)
