"""Takes complex numbers apart into pairs of real ones, alone and in lists, and puts them together again.

The oracle is one of real numbers, and so are the kinds of numbers that tensors are filled with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from opsmith.judging.tasks.trees import as_real, tensors_of

__all__ = ["has_complex", "in_pairs", "joined", "over_pairs", "places_of_complex"]


def in_pairs(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with pairs [..., 2] in place of complex tensors [...]."""
    return {name: _pairs(value) for name, value in values.items()}


def places_of_complex(value: Any) -> Any:
    """Return whether an argument is a complex tensor; of a list, a list that says so of each of its items."""
    if isinstance(value, list | tuple):
        return [places_of_complex(one) for one in value]
    return isinstance(value, Tensor) and value.is_complex()


def has_complex(places: Any) -> bool:
    """Whether `places_of_complex` has found any."""
    return any(map(has_complex, places)) if isinstance(places, list) else bool(places)


def joined(value: Any, places: Any) -> Any:
    """Return an argument with complex tensors where `places_of_complex` says so, and pairs stand.

    They keep the layout where both numbers of a pair lie as those of a complex one do.
    """
    if isinstance(places, list):
        return [joined(one, place) for one, place in zip(value, places, strict=True)]
    return torch.view_as_complex(value if _lies_in_pairs(value) else value.contiguous()) if places else value


def over_pairs(function: Callable[..., Any], places: Sequence[Any]) -> Callable[..., tuple[Tensor, ...]]:
    """Return a function of arguments in pairs where another one's are complex, whose results are in pairs as well.

    `places` are `places_of_complex` of the arguments.
    """

    def call(*arguments: Any) -> tuple[Tensor, ...]:
        given = [joined(value, place) for value, place in zip(arguments, places, strict=True)]
        return tuple(map(as_real, tensors_of(function(*given))))

    return call


def _lies_in_pairs(value: Tensor) -> bool:
    return value.stride(-1) == 1 and not any(step % 2 for step in (value.storage_offset(), *value.stride()[:-1]))


def _pairs(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_pairs(one) for one in value]
    return as_real(value) if isinstance(value, Tensor) else value
