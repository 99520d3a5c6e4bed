"""Makes tensors whose numbers are chosen: a last one that decides, all above zero, indices below a bound."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["ABOVE_ZERO", "LAST", "are_indices", "indices", "placed_values"]

LAST, ABOVE_ZERO = "last", "positive"
_BELOW = "below "
_FROM_ONE = "1 to "
_DECIDES = 9


def indices(first: int, size: int) -> str:
    """Return the kind of values that are indices of so many, which count from 0 or from 1: "below 7", "1 to 7"."""
    return f"{_FROM_ONE if first else _BELOW}{size}"


def are_indices(values: str) -> bool:
    """Whether a kind of values is one of indices."""
    return values.startswith((_BELOW, _FROM_ONE))


def placed_values(shape: tuple[int, ...], dtype: torch.dtype, values: str, random: torch.Generator) -> Tensor | None:
    """Return a tensor of one of these kinds, or None for another kind."""
    is_floating = dtype.is_floating_point
    if are_indices(values) and not is_floating and dtype is not torch.bool:
        first = int(values.startswith(_FROM_ONE))
        size = max(1, min(int(values.rpartition(" ")[2]), torch.iinfo(dtype).max))
        numbers = torch.randint(first, first + size, shape, generator=random)
        # The last one always, so that it is tried in a tensor of one.
        numbers.view(-1)[:1] = first + size - 1
        return numbers.to(dtype)
    if values == ABOVE_ZERO:
        return _above_zero(shape, dtype, random)
    return _last(shape, dtype, random) if values == LAST and shape and 0 not in shape else None


def _above_zero(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """Numbers of one sign, of which as many can be counted as there are; eighths, so that sums of all of them are exact."""
    if dtype is torch.bool:
        return torch.ones(shape, dtype=dtype)
    if not dtype.is_floating_point:
        return torch.randint(1, 4, shape, generator=random).to(dtype)
    return (torch.randint(1, 8, shape, generator=random).to(torch.float64) / 8).to(dtype)


def _last(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """Along the longest dimension, small numbers and at the end one that is the largest or the smallest, in turns.

    Of truth values the last one alone is true, or false, in turns.
    """
    longest = max(range(len(shape)), key=lambda dim: shape[dim])
    others = [1 if dim == longest else size for dim, size in enumerate(shape)]
    is_largest = (torch.arange(math.prod(others)) % 2 == 0).reshape(others)
    if dtype is torch.bool:
        numbers = (~is_largest).expand(shape).clone()
        last: Tensor = is_largest
    elif dtype.is_floating_point:
        # Eighths, so that sums of all of them are exact.
        numbers = torch.randint(-7, 8, shape, generator=random).to(torch.float64) / 8
        last = torch.where(is_largest, float(_DECIDES), -float(_DECIDES)).to(torch.float64)
    else:
        numbers = torch.randint(1, 4, shape, generator=random)
        last = torch.where(is_largest, _DECIDES, 0)
    numbers.narrow(longest, shape[longest] - 1, 1).copy_(last)
    return numbers.to(dtype)
