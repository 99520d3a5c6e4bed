"""Makes tensors whose numbers are chosen: a last one that decides, all above zero, integers between two."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["ABOVE_ZERO", "LAST", "are_indices", "between", "bounds_of", "indices", "placed_values"]

LAST, ABOVE_ZERO = "last", "positive"
_BELOW = "below "
_TO = " to "
_DECIDES = 9


def between(first: int, last: int) -> str:
    """Return the kind of values that are integers between two, which are among them: "below 7", "1 to 7", "-3 to 7"."""
    return f"{_BELOW}{last + 1}" if first == 0 else f"{first}{_TO}{last}"


def indices(first: int, size: int) -> str:
    """Return the kind of values that are indices of so many, which count from 0 or from 1."""
    return between(first, first + size - 1)


def are_indices(values: str) -> bool:
    """Whether a kind of values is one of integers between two, such as indices."""
    return values.startswith(_BELOW) or _TO in values


def bounds_of(values: str) -> tuple[int, int]:
    """Return the first and the last of a kind of integers between two."""
    if values.startswith(_BELOW):
        return 0, int(values.removeprefix(_BELOW)) - 1
    first, _, last = values.partition(_TO)
    return int(first), int(last)


def placed_values(shape: tuple[int, ...], dtype: torch.dtype, values: str, random: torch.Generator) -> Tensor | None:
    """Return a tensor of one of these kinds, or None for another kind."""
    is_floating = dtype.is_floating_point
    if are_indices(values) and not is_floating and dtype is not torch.bool:
        first, last = bounds_of(values)
        last = max(first, min(last, torch.iinfo(dtype).max))
        end = min(last + 1, torch.iinfo(torch.int64).max)
        numbers = torch.randint(min(first, end - 1), end, shape, generator=random)
        # The last one always, so that it is tried in a tensor of one.
        numbers.view(-1)[:1] = last
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
