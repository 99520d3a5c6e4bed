"""Makes tensors in which it matters what lies where: a last element that decides, and indices below a bound."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["BELOW", "LAST", "placed_values"]

# "below 7": indices of 0 to 6, of which the first is 6.
BELOW = "below "
LAST = "last"
_DECIDES = 9


def placed_values(shape: tuple[int, ...], dtype: torch.dtype, values: str, random: torch.Generator) -> Tensor | None:
    """Return a tensor of one of these kinds, or None for another kind."""
    is_floating = dtype.is_floating_point
    if values.startswith(BELOW) and not is_floating and dtype is not torch.bool:
        bound = min(max(1, int(values.removeprefix(BELOW))), torch.iinfo(dtype).max + 1)
        numbers = torch.randint(0, bound, shape, generator=random)
        numbers.view(-1)[:1] = bound - 1
        return numbers.to(dtype)
    return _last(shape, dtype, random) if values == LAST and shape and 0 not in shape else None


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
        numbers = torch.rand(shape, generator=random, dtype=torch.float64) * 2 - 1
        last = torch.where(is_largest, float(_DECIDES), -float(_DECIDES)).to(torch.float64)
    else:
        numbers = torch.randint(1, 4, shape, generator=random)
        last = torch.where(is_largest, _DECIDES, 0)
    numbers.narrow(longest, shape[longest] - 1, 1).copy_(last)
    return numbers.to(dtype)
