"""Finds out what a task's integers say of others: between which numbers they lie, and whether they are offsets.

No signature says that an integer counts the rows of a table, is a divisor, or ends a segment. A kernel may rely on that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor

from opsmith.judging.trial import Values

__all__ = ["has_offsets", "ranges_of"]

# Of so many numbers that never fall, chance is no reason.
_FEWEST = 4


def ranges_of(calls: Iterable[Values]) -> dict[str, tuple[int, int]]:
    """Return the least and the largest number of each integer tensor in all of a task's calls, by argument."""
    found: dict[str, tuple[int, int]] = {}
    for call in calls:
        for name, value in _integers(call):
            least, most = map(int, torch.aminmax(value))
            low, high = found.get(name, (least, most))
            found[name] = min(low, least), max(high, most)
    return found


def has_offsets(calls: Iterable[Values]) -> bool:
    """Whether a call has integers in order, as offsets and the numbers of segments are: they fit its sizes alone."""
    return any(_is_in_order(value) for call in calls for _, value in _integers(call))


def _is_in_order(value: Tensor) -> bool:
    return (
        value.dim() == 1 and len(value) >= _FEWEST and bool((value.diff() >= 0).all()) and bool(value[0] != value[-1])
    )


def _integers(call: Mapping[str, object]) -> Iterator[tuple[str, Tensor]]:
    for name, value in call.items():
        for one in value if isinstance(value, list | tuple) else (value,):
            is_integer = isinstance(one, Tensor) and not one.is_floating_point() and not one.is_complex()
            if is_integer and one.dtype is not torch.bool and one.numel():
                yield name, one.to(torch.int64)  # of unsigned ones no difference is below zero
