"""Operators with one thing wrong in the fake kernel, and right ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

Matrix = Float[Tensor, "B N"]


def doubled_reference(x: Matrix) -> Matrix:
    """2 x."""
    return 2 * x


def positive_reference(x: Float[Tensor, "N"]) -> Tensor:
    """What is larger than zero."""
    return x[x > 0]


def make_doubled(name: str, fake: Callable[..., Any] | None, kernel: Callable[..., Any] | None = None) -> Any:
    """Return an operator of 2 x with a fake kernel."""
    run = kernel or (lambda x: (2 * x).contiguous())

    @torch.library.custom_op(f"kit_comp::{name}", mutates_args=())
    def op(x: Tensor) -> Tensor:
        return run(x)

    if fake is not None:
        op.register_fake(fake)
    return op


def _fixed_above_100(x: Tensor) -> Tensor:
    return x.new_empty(min(x.shape[0], 100), x.shape[1])


right_fake = make_doubled("right_fake", lambda x: x.new_empty(x.shape))
keeps_strides = make_doubled("keeps_strides", torch.empty_like, lambda x: 2 * x)
no_fake = make_doubled("no_fake", None)
WRONG = {
    "the shape": make_doubled("wrong_shape", lambda x: x.new_empty(x.shape[0], x.shape[1] + 1)),
    "the element type": make_doubled("wrong_dtype", lambda x: x.new_empty(x.shape, dtype=torch.float32)),
    "the strides": make_doubled("wrong_stride", lambda x: x.new_empty(x.shape[1], x.shape[0]).t()),
    "B = ": make_doubled("wrong_for_many", _fixed_above_100),
    "transposed": make_doubled("wrong_for_transposed", torch.empty_like),
    "symbols": make_doubled("needs_numbers", lambda x: x.new_empty(x.shape, device=_refuses_symbols(x))),
    "the storage offset": make_doubled("wrong_offset", lambda x: x.new_empty(x.numel() + 1)[1:].view(x.shape)),
}


def _fixed_in_export(x: Tensor) -> Tensor:
    rows = int(x.shape[0]) if torch.compiler.is_exporting() else x.shape[0]
    return x.new_empty(rows, x.shape[1])


fixes_sizes = make_doubled("fixes_sizes", lambda x: x.new_empty(int(x.shape[0]), x.shape[1]))
fixes_sizes_in_export = make_doubled("fixes_sizes_in_export", _fixed_in_export)


def _refuses_symbols(x: Tensor) -> torch.device:
    if not isinstance(x.shape[0], int):
        raise TypeError("a size must be a number")
    return x.device


def _make_positive(name: str, fake: Callable[..., Any]) -> Any:
    @torch.library.custom_op(f"kit_comp::{name}", mutates_args=())
    def op(x: Tensor) -> Tensor:
        return x[x > 0].clone()

    op.register_fake(fake)
    return op


positive = _make_positive("positive", lambda x: x.new_empty(torch.library.get_ctx().new_dynamic_size()))
EXAMPLES = [(torch.tensor([1.0, -2.0, 3.0, 4.0, -5.0]),)]


@torch.library.custom_op("kit_comp::add_one_", mutates_args=("x",))
def add_one_(x: Tensor) -> None:
    """Add one in place."""
    x.add_(1)


def add_one_reference(x: Matrix) -> None:
    """Add one in place."""
    x.add_(1)


@torch.library.custom_op("kit_comp::pick", mutates_args=())
def pick(x: Tensor, index: Tensor, rest: list[Tensor], extra: Tensor | None = None) -> Tensor:
    """Rows by index, plus the sum of a list and an optional row."""
    y = x[index] + sum(rest)
    return y if extra is None else y + extra


@pick.register_fake
def _(x: Tensor, index: Tensor, rest: list[Tensor], extra: Tensor | None = None) -> Tensor:
    return x.new_empty(index.shape[0], x.shape[1])


def pick_reference(x: Tensor, index: Tensor, rest: list[Tensor], extra: Tensor | None = None) -> Tensor:
    """Rows by index, plus the sum of a list and an optional row."""
    y = x[index] + sum(rest)
    return y if extra is None else y + extra


PICK_EXAMPLES = [
    (torch.arange(12.0).reshape(4, 3), torch.tensor([0, 2, 3, 1, 1]), [torch.ones(3), torch.arange(3.0)], None),
    (torch.arange(12.0).reshape(4, 3), torch.tensor([0, 2]), [torch.ones(3)], torch.ones(3)),
]
