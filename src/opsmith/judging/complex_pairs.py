"""Takes complex numbers apart into pairs of real ones, alone and in lists, and puts them together again.

The oracle is one of real numbers, and so are the kinds of numbers that tensors are filled with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from opsmith.judging.tasks.trees import as_real

__all__ = ["in_pairs", "joined", "places_of_complex"]


def in_pairs(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with pairs [..., 2] in place of complex tensors [...]."""
    return {name: _pairs(value) for name, value in values.items()}


def places_of_complex(value: Any) -> Any:
    """Return whether an argument is a complex tensor; of a list, a list that says so of each of its items."""
    if isinstance(value, list | tuple):
        return [places_of_complex(one) for one in value]
    return isinstance(value, Tensor) and value.is_complex()


def joined(value: Any, places: Any) -> Any:
    """Return an argument with complex tensors where `places_of_complex` says so, and pairs stand."""
    if isinstance(places, list):
        return [joined(one, place) for one, place in zip(value, places, strict=True)]
    return torch.view_as_complex(value.contiguous()) if places else value


def _pairs(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_pairs(one) for one in value]
    return as_real(value) if isinstance(value, Tensor) else value
