"""Finds what all inputs of a task have in common, such as a triangle of zeros, so that other numbers come with it too.

A kernel may rely on that: a product with triangular matrices is posed for the zeros to be left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opsmith.judging.tasks.functions import FEW

__all__ = ["Structure", "is_choice", "structure_of", "with_structure"]

# So many numbers are looked at first, and of larger tensors none: that takes seconds.
_FIRST, _MOST = 1 << 12, 1 << 25


@dataclass(frozen=True)
class Structure:
    """Where all draws of a tensor are zero, and whether all are symmetric, or sorted along the last dimension."""

    zeros: Tensor | None = None
    is_symmetric: bool = False
    is_sorted: bool = False

    def __bool__(self) -> bool:
        return self.zeros is not None or self.is_symmetric or self.is_sorted


def is_choice(value: Any) -> bool:
    """Whether a tensor's floating-point numbers are few different ones."""
    if not isinstance(value, Tensor) or not value.is_floating_point() or not FEW < value.numel() <= _MOST:
        return False
    flat = value.detach().reshape(-1)
    return len(flat[:_FIRST].unique()) <= FEW and len(flat.unique()) <= FEW


def structure_of(draws: Sequence[Any]) -> Structure:
    """Return what draws of one argument have in common."""
    if not all(isinstance(one, Tensor) and one.is_floating_point() and 1 < one.numel() <= _MOST for one in draws):
        return Structure()
    if len({one.shape for one in draws}) > 1:
        return Structure()
    zeros = draws[0] == 0
    for one in draws[1:]:
        zeros = zeros & (one == 0)
    last = draws[0].shape[-1]
    is_square = draws[0].dim() > 1 and draws[0].shape[-2] == last > 1
    return Structure(
        zeros if bool(zeros.any()) and not bool(zeros.all()) else None,
        is_square and all(torch.equal(one, one.mT) for one in draws),
        last > 2 and all(bool((one.diff(dim=-1) >= 0).all()) for one in draws),
    )


def with_structure(values: Mapping[str, Any], old: Mapping[str, Any], known: Mapping[str, Structure]) -> dict[str, Any]:
    """Return arguments with the structure of their tensors, as far as they are others than `old`."""
    return {
        name: _structured(value, known[name]) if value is not old[name] and known.get(name) else value
        for name, value in values.items()
    }


def _structured(value: Tensor, known: Structure) -> Tensor:
    if known.is_symmetric:
        value = value.triu() + value.triu(1).mT
    if known.zeros is not None:
        value = value.masked_fill(known.zeros.to(value.device), 0)
    return value.sort(-1).values if known.is_sorted else value
