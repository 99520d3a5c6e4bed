"""Makes more inputs of those that a task has made: the same numbers, smaller by a factor.

A GPU is done with a call before the next inputs are made and sent. Inputs that are made there, in both processes alike, cost
nothing, and are other ones: what is kept of one call is no other call's result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opsmith.judging.memory import span_of

__all__ = ["FACTORS", "Inputs", "are_scalable", "bytes_of", "scaled"]

# They have few digits: a product is rounded alike on all devices. They make nothing larger: what has a domain stays in it.
FACTORS = tuple(number / 256 for number in range(160, 256))
_SCALABLE = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_multiply, _copy, _empty_like, _Tensor = torch.mul, Tensor.copy_, torch.empty_like, Tensor


@dataclass(frozen=True)
class Inputs:
    """The inputs of several calls: those that were made, and behind them copies, each of a number of `made` by a factor."""

    made: Sequence[Mapping[str, Any]]
    copies: Sequence[tuple[int, float]] = ()

    def __len__(self) -> int:
        return len(self.made) + len(self.copies)

    def __getitem__(self, number: int) -> Mapping[str, Any]:
        if number < len(self.made):
            return self.made[number]
        source, factor = self.copies[number - len(self.made)]
        return {name: scaled(value, factor) for name, value in self.made[source].items()}


def scaled(value: Any, factor: float, into: Any = None) -> Any:
    """Return an argument with its numbers times a factor, in the same layout; integers and what is no tensor stay.

    With `into`, which such a call has returned before, its tensors are the ones that are written.
    """
    if isinstance(value, _Tensor):
        target = _empty_like(value) if into is None else into
        if value.dtype in _SCALABLE:
            return _multiply(value, factor, out=target)
        return _copy(target, value)
    if isinstance(value, list | tuple):
        return [scaled(one, factor, None if into is None else into[place]) for place, one in enumerate(value)]
    return value


def bytes_of(value: Any) -> int:
    """Return how many bytes the elements of an argument take, of a tensor or of those in a list."""
    if isinstance(value, _Tensor):
        return value.numel() * value.element_size()
    return sum(map(bytes_of, value)) if isinstance(value, list | tuple) else 0


def are_scalable(values: Mapping[str, Any]) -> bool:
    """Whether copies have the layout of the inputs, which then have no gaps, and other numbers in at least one tensor."""
    tensors = [one for value in values.values() for one in (value if isinstance(value, list | tuple) else [value])]
    tensors = [one for one in tensors if isinstance(one, Tensor)]
    return any(one.dtype in _SCALABLE for one in tensors) and all(span_of(one) == one.numel() for one in tensors)
