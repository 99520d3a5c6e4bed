"""Reads and checks the arguments that upfirdn2d, its relatives and filtered_lrelu share.

Where an argument has two directions, x comes first. `op` is the function's name, for messages.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from opsmith.errors import ArgumentTypeError, ArgumentValueError, DeviceError, GradientError, ShapeError, describe
from opsmith.ops._arguments import as_int, check_numbers, check_storage, check_tensors, is_int

__all__ = [
    "MOST_UP_DOWN",
    "Ints",
    "check_clamp",
    "check_images",
    "read_factors",
    "read_filter",
    "read_padding",
    "read_taps",
]

Ints = int | Sequence[int]

# Kernels and references reject more, and paddings beyond 31 bits: their products with sizes must fit into 64 bits.
MOST_UP_DOWN = 256


def check_images(op: str, x: Tensor) -> None:
    """Raise ArgumentTypeError or ShapeError for what is not a tensor [N, C, H, W]."""
    check_tensors(op, x=x)
    if x.ndim != 4:
        raise ShapeError(f"{op}(): x has {x.ndim} dimensions, expected a tensor [N, C, H, W]")


def read_factors(op: str, name: str, value: Ints) -> tuple[int, int]:
    """Return the factors along x and y of an int or two of them."""
    values = _ints(op, name, value, (2,))
    if any(number < 1 or number > MOST_UP_DOWN for number in values):
        raise ArgumentValueError(f"{op}(): {name} is {value!r:.60}, expected 1 to {MOST_UP_DOWN}")
    return values[0], values[-1]


def read_padding(op: str, value: Ints) -> tuple[int, ...]:
    """Return the padding before and after along x, before and after along y, of an int, two or four of them."""
    values = _ints(op, "padding", value, (2, 4))
    if len(values) == 4:
        return values
    x, y = values[0], values[-1]
    return x, x, y, y


def read_taps(op: str, name: str, f: Tensor) -> tuple[int, int]:
    """Return how many taps a filter has along y and x."""
    if not isinstance(f, Tensor) or f.ndim not in (1, 2) or f.numel() == 0:
        found = f"the shape {tuple(f.shape)}" if isinstance(f, Tensor) else f"the type {type(f).__name__}"
        raise ArgumentValueError(f"{op}(): {name} has {found}, expected a tensor [FH, FW] or [taps]; see setup_filter")
    return f.shape[0], f.shape[-1]


def read_filter(op: str, name: str, x: Tensor, f: Tensor | None) -> Tensor:
    """Return a filter, which is the identity for None."""
    if f is None:
        return torch.ones(1, 1, dtype=torch.float32, device=x.device)
    read_taps(op, name, f)
    if f.layout is not torch.strided:
        check_storage(op, **{name: f})
    # The operators check this, but not the references: conv2d of a CPU's images and a filter on meta returns memory that
    # was never written. There is one CPU, with an index or without.
    if f.device != x.device and not f.device.type == x.device.type == "cpu":
        raise DeviceError(f"{op}(): {name} is on {f.device}, but x is on {x.device}")
    if f.requires_grad and torch.is_grad_enabled():
        raise GradientError(f"{op}() has no gradient of the filter {name}: give it {name}.detach()")
    return f


def _ints(op: str, name: str, value: Ints, lengths: tuple[int, ...]) -> tuple[int, ...]:
    values = tuple(value) if isinstance(value, Sequence) else (value,)
    if len(values) not in (1, *lengths) or not all(map(is_int, values)):
        words = " or ".join(map(str, lengths))
        raise ArgumentTypeError(f"{op}(): {name} is {describe(value)}, expected an int or {words} of them")
    return tuple(map(as_int, values))


def check_clamp(clamp: float | None, op: str = "bias_act") -> None:
    """Raise ArgumentTypeError or ArgumentValueError for a clamp that is not a limit. `op` is the function's name."""
    if clamp is None:
        return
    check_numbers(op, clamp=clamp)
    if not clamp >= 0:
        raise ArgumentValueError(f"{op}(): clamp must not be below 0; it is {clamp}")
