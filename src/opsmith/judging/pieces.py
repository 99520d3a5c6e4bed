"""Compares large tensors at a glance, some millions of elements at a time: in float64 all of them take too much memory."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

__all__ = ["mean_of", "relative_distance", "within"]

_ELEMENTS = 1 << 24


def _pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    flat = [tensor.reshape(-1) for tensor in tensors]
    for begin in range(0, flat[0].numel(), _ELEMENTS):
        yield tuple(one[begin : begin + _ELEMENTS].to(flat[-1].device, torch.float64) for one in flat)


def mean_of(tensor: Tensor) -> float:
    """Return the mean of a tensor's elements."""
    return sum(float(piece.sum()) for (piece,) in _pieces(tensor)) / max(tensor.numel(), 1)


def within(one: Tensor, other: Tensor | float, part: float) -> bool:
    """Whether a tensor is another one, or a number, but for a part of each number, and of what is usual among them.

    NaN is like NaN.
    """
    if isinstance(other, float):
        most = part * 2 * abs(other)
        return all(bool(((piece - other).abs() <= most).all()) for (piece,) in _pieces(one))
    squares = sum(float(piece.nan_to_num(0.0, 0.0, 0.0).square().sum()) for (piece,) in _pieces(other))
    usual = math.sqrt(squares / max(other.numel(), 1))
    return all(torch.allclose(a, b, rtol=part, atol=part * usual, equal_nan=True) for a, b in _pieces(one, other))


def relative_distance(one: Tensor, other: Tensor) -> float:
    """Return the norm of the difference as a part of the other's; infinite where a number is not finite."""
    distance = norm = 0.0
    for a, b in _pieces(one, other):
        distance += float((a - b).square().sum())
        norm += float(b.square().sum())
    if not math.isfinite(distance) or not math.isfinite(norm):
        return math.inf
    return math.sqrt(distance / norm) if norm else (math.inf if distance else 0.0)
