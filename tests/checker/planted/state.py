"""Operators that keep or change what is not theirs, declared once with the defects and once without: see `load.py`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import opsmith

PLANTED = __name__.endswith("_planted")
KERNELS = opsmith.view("state.cpp", flags=("-DPLANTED",) if PLANTED else ())
Vector = Float[Tensor, "N"]
Matrix = Float[Tensor, "B N"]
Rows = Float[Tensor, "B"]
declare = {"cpu": KERNELS, "namespace": __name__}
# Operators that are made in Python, each with its reference, whose annotations say what it takes.
OPERATORS: dict[str, tuple[Any, Callable[..., Any]]] = {}


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype is torch.float64 else x.float()


@opsmith.op(**declare)
def by_pointer(x: Matrix) -> Rows:
    return x.sum(1)


@opsmith.op(**declare)
def by_prefix(x: Matrix) -> Rows:
    return x.sum(1)


@opsmith.op(**declare)
def by_sample(x: Matrix) -> Rows:
    return x.sum(1)


@opsmith.op(**declare)
def packed_weight(x: Float[Tensor, "B I"], w: Float[Tensor, "I O"]) -> Float[Tensor, "B O"]:
    return (_wide(x) @ _wide(w)).to(x.dtype)


@opsmith.op(**declare)
def flushes(x: Vector) -> Vector:
    return x * 3


@opsmith.op(**declare)
def flushes_workers(x: Vector) -> Vector:
    return x * 5


@opsmith.op(**declare)
def rounds(x: Vector) -> Vector:
    return x.floor()


@opsmith.op(**declare)
def pins(x: Vector) -> Vector:
    return x - 2


@opsmith.op(**declare)
def same_twice(x: Matrix, y: Matrix) -> Matrix:
    return x + 0.5 * y


@opsmith.op(**declare)
def gram(x: Float[Tensor, "M D"], y: Float[Tensor, "N D"]) -> Float[Tensor, "M N"]:
    return (_wide(x) @ _wide(y).t()).to(x.dtype)


@opsmith.op(**declare)
def restores(x: Matrix) -> Matrix:
    return x * 0.5


@opsmith.op(**declare)
def sentinel(x: Vector) -> Int64[Tensor, "1"]:
    first = torch.cat([x < 0, torch.ones(1, dtype=torch.bool)])
    return first.to(torch.uint8).argmax().reshape(1)


@opsmith.op(**declare)
def static_scratch(x: Vector) -> Vector:
    return x.flip(0)


@opsmith.op(**declare)
def static_table(x: Vector, base: float) -> Vector:
    angles = base * (torch.arange(x.shape[0], dtype=torch.float64) % 4096)
    return (
        x * angles.cos().to(_wide(x).dtype).to(x.dtype)
        if x.dtype is torch.float64
        else (x.float() * angles.cos().float()).to(x.dtype)
    )


@opsmith.op(**declare)
def static_sum(x: Matrix) -> Rows:
    return x.sum(1)


def doubled(x: Float[Tensor, "N M"]) -> Float[Tensor, "N M"]:
    """The reference of the operators below."""
    return 2 * x


def _make(name: str, forward: Callable[[Tensor], Tensor]) -> None:
    """Register an operator of torch.library.custom_op's that doubles its argument, and does something besides."""

    def kernel(x: Tensor) -> Tensor:
        return forward(x) if PLANTED else 2 * x

    kernel.__annotations__ = {"x": Tensor, "return": Tensor}
    op = torch.library.custom_op(f"{__name__}::{name}", kernel, mutates_args=())
    op.register_fake(torch.empty_like)
    op.register_autograd(lambda ctx, grad: 2 * grad)
    op.register_vmap(lambda info, in_dims, x: (2 * x, in_dims[0]))
    OPERATORS[name] = (op, doubled)


_results: dict[Any, Tensor] = {}


def _by_version(x: Tensor) -> Tensor:
    key = (x.data_ptr(), x.shape, x.stride(), x.dtype, x._version)
    if key not in _results:
        _results.clear()
        _results[key] = 2 * x
    return _results[key].clone()


def _one_thread(x: Tensor) -> Tensor:
    torch.set_num_threads(1)
    return 2 * x


def _default_dtype(x: Tensor) -> Tensor:
    torch.set_default_dtype(torch.float64)
    return 2 * x


def _reseeds(x: Tensor) -> Tensor:
    torch.manual_seed(0)
    return 2 * x


def _deterministic(x: Tensor) -> Tensor:
    torch._C._set_deterministic_algorithms(True, warn_only=True)
    return 2 * x


_make("by_version", _by_version)
_make("one_thread", _one_thread)
_make("default_dtype", _default_dtype)
_make("reseeds", _reseeds)
_make("deterministic", _deterministic)


@functools.lru_cache(maxsize=16)
def _kept(x: Tensor) -> Tensor:
    return 2 * x  # a tensor's hash is its identity


def _by_identity(x: Tensor) -> Tensor:
    return _kept(x).clone() if PLANTED else 2 * x


def _grad_off(x: Tensor) -> Tensor:
    result = 2 * x
    if PLANTED:
        torch.set_grad_enabled(not torch.is_grad_enabled())
    return result


OPERATORS["by_identity"] = (_by_identity, doubled)
OPERATORS["grad_off"] = (_grad_off, doubled)
