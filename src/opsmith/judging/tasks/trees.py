"""Takes what a task calls its function with apart into flat arguments, and puts it together again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opsmith.errors import ArgumentError
from opsmith.judging.packings import filled, number_as_tensor
from opsmith.judging.structure import is_narrow
from opsmith.judging.tasks.places import here

__all__ = ["Tree", "as_argument", "as_real", "differs", "flattened", "same_tensor", "tensors_of", "tree_of"]


_FLOAT4 = getattr(torch, "float4_e2m1fn_x2", None)  # since 2.8


@dataclass(frozen=True)
class Tree:
    """The structure of an argument as `Entry.structure` describes it, and the names of its leaves."""

    structure: Any
    names: tuple[str, ...]

    def filled(self, values: Sequence[Any]) -> Any:
        """Return the argument with these leaves."""
        return filled(self.structure, values)

    def leaves(self, argument: Any) -> list[Any]:
        """Return the leaves of an argument; raises ArgumentError where its structure is another one."""
        other = tree_of(argument)
        if other.structure != self.structure:
            raise ArgumentError("the task's inputs have another structure from seed to seed; it has to be one")
        return _leaves(argument)


def tree_of(argument: Any) -> Tree:
    """Return the structure of tuples, lists and dictionaries; names are keys and positions: "a", "weights_bias"."""
    names: list[str] = []

    def described(value: Any, path: str) -> Any:
        if isinstance(value, dict):
            return {"dict": {str(key): described(item, f"{path}_{key}") for key, item in value.items()}}
        if isinstance(value, tuple):
            return {"tuple": [described(item, f"{path}_{index}") for index, item in enumerate(value)]}
        if isinstance(value, list) and not _is_flat(value):
            return [described(item, f"{path}_{index}") for index, item in enumerate(value)]
        names.append("".join(letter if letter.isalnum() else "_" for letter in path))
        return len(names) - 1

    structure = described(argument, "data")
    return Tree(structure, tuple(names))


def as_argument(value: Any, where: str) -> Any:
    """Return a leaf as an argument that a candidate can get, its tensors where they are made by default.

    Raises ArgumentError for others.
    """
    if isinstance(value, Tensor):
        if value.dtype is _FLOAT4:
            raise ArgumentError(f"{where} has {_FLOAT4}, which PyTorch cannot copy; give its bytes (view(torch.uint8))")
        return here(value.detach())
    if value is None or isinstance(value, bool | int | float | str | torch.dtype):
        return value
    if isinstance(value, list | tuple) and all(not isinstance(item, dict) for item in value):
        return [as_argument(item, where) for item in value]
    raise ArgumentError(
        f"{where} is a {type(value).__name__}; a candidate can be given tensors, numbers, texts, None and lists of these"
    )


def tensors_of(found: Any) -> list[Tensor]:
    """Return the tensors of what a function returns: one, or those in tuples, lists and dictionaries, by their keys.

    Numbers are tensors without dimensions. What is neither, such as None, is left out.
    """
    if isinstance(found, Tensor):
        return [found]
    if isinstance(found, bool | int | float):
        return [number_as_tensor(found)]
    if isinstance(found, dict):
        found = [found[key] for key in sorted(found, key=str)]
    return [one for item in found for one in tensors_of(item)] if isinstance(found, tuple | list) else []


def flattened(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that returns a tensor, or a tuple of them, where another one returns them in a structure."""

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        found = function(*arguments)
        return found if isinstance(found, Tensor) or found is None else tuple(tensors_of(found))

    return call


def as_real(tensor: Tensor) -> Tensor:
    """Return complex numbers as pairs of real ones, along another dimension, and float8 in float32; others as they are."""
    if tensor.is_complex():
        return torch.view_as_real(tensor.resolve_conj())
    return tensor.float() if is_narrow(tensor) else tensor


def same_tensor(one: Tensor, other: Tensor) -> bool:
    """Whether tensors have the same numbers; NaN is like NaN, which an output may have that is not filled yet."""
    one, other = as_real(one), as_real(other)
    return one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())


def differs(value: Any, other: Any) -> bool:
    """Whether arguments are not the same: in their tensors, or what they are made of."""
    if isinstance(value, list | tuple):
        return len(value) != len(other) or any(map(differs, value, other))
    if isinstance(value, Tensor):
        return not (value.shape == other.shape and same_tensor(value, other))
    return bool(value != other)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, tuple) or (isinstance(value, list) and not _is_flat(value)):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


def _is_flat(value: list[Any]) -> bool:
    return bool(value) and all(item is None or isinstance(item, bool | int | float | str) for item in value)
