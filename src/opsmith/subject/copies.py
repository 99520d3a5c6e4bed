"""Copies the arguments of a call: as they are, in another element type, or off by a part of one rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from opsmith.subject.draws import Draws

__all__ = [
    "CORRELATED",
    "cast",
    "coarsest",
    "copied",
    "floating_names",
    "integer_names",
    "mapped",
    "perturbed",
    "upcast",
    "working_dtype",
]

# The types that a check knows tolerances for.
_KNOWN = frozenset({torch.float64, torch.float32, torch.float16, torch.bfloat16})
# In place of a seed: every number grows, so that what each adds to a sum has one sign.
CORRELATED = -1


def mapped(values: Mapping[str, Any], change: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    """Return arguments with every floating-point tensor changed; tensors of lists too."""

    def one(value: Any) -> Any:
        if isinstance(value, Tensor):
            return change(value) if value.dtype.is_floating_point else value
        return [one(item) for item in value] if isinstance(value, list) else value

    return {name: one(value) for name, value in values.items()}


def copied(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with copies of the tensors: the reference may write to them."""

    def copy(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.detach().clone()
        return [copy(item) for item in value] if isinstance(value, list) else value

    return {name: copy(value) for name, value in values.items()}


def upcast(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with floating tensors in float64; all tensors are copies, contiguous."""

    def up(value: Any) -> Any:
        if isinstance(value, Tensor):
            wide = torch.float64 if value.dtype.is_floating_point else value.dtype
            return value.detach().to(wide, copy=True).contiguous()
        return [up(item) for item in value] if isinstance(value, list) else value

    return {name: up(value) for name, value in values.items()}


def cast(values: Mapping[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    """Return arguments with floating tensors in a type."""
    return mapped(values, lambda tensor: tensor.detach().to(dtype))


def floating_names(values: Mapping[str, Any]) -> list[str]:
    """Return the names of the arguments that hold floating-point numbers."""
    return [name for name, first in _tensors(values) if first.dtype.is_floating_point]


def integer_names(values: Mapping[str, Any]) -> list[str]:
    """Return the names of the arguments that hold integers or truth values."""
    return [name for name, first in _tensors(values) if not first.dtype.is_floating_point and not first.is_complex()]


def _tensors(values: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    """Yield each argument that is a tensor, or a list of some, with the first of them."""
    for name, value in values.items():
        for first in value[:1] if isinstance(value, list) else [value]:
            if isinstance(first, Tensor):
                yield name, first


def working_dtype(values: Mapping[str, Any]) -> torch.dtype | None:
    """Return the coarsest floating type among the arguments."""
    return coarsest(item for value in values.values() for item in (value if isinstance(value, list) else [value]))


def coarsest(values: Iterable[Any]) -> torch.dtype | None:
    """Return the coarsest floating type among tensors; what is none does not count."""
    found = {value.dtype for value in values if isinstance(value, Tensor)} & _KNOWN
    return max(found, key=lambda dtype: torch.finfo(dtype).eps, default=None)


def perturbed(values: Mapping[str, Any], names: list[str], relative: float, seed: int) -> dict[str, Any]:
    """Return copies of the arguments, some of them off by a part of themselves, up or down at random.

    The same seed gives the same signs, whatever the part.
    """
    draws = Draws(max(seed, 0))

    def off(tensor: Tensor) -> Tensor:
        signs = tensor.sign().to(torch.float64) if seed == CORRELATED else draws.signs(tensor)
        return (tensor.to(torch.float64) * (1 + relative * signs)).to(tensor.dtype)

    changed = copied(values)
    changed.update(mapped({name: changed[name] for name in names}, off))
    return changed
