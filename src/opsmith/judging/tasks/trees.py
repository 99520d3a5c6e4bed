"""Takes what a task calls its function with apart into flat arguments, and puts it together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opsmith.errors import ArgumentError
from opsmith.judging.packings import filled

__all__ = ["Tree", "as_argument", "same_tensor", "tensors_of", "tree_of"]


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
    """Return a leaf as an argument that a candidate can get, its tensors on the CPU; raises ArgumentError for others."""
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if value is None or isinstance(value, bool | int | float | str | torch.dtype):
        return value
    if isinstance(value, list | tuple) and all(not isinstance(item, dict) for item in value):
        return [as_argument(item, where) for item in value]
    raise ArgumentError(
        f"{where} is a {type(value).__name__}; a candidate can be given tensors, numbers, texts, None and lists of these"
    )


def tensors_of(found: Any) -> list[Tensor]:
    """Return the tensors among what a function returns, one or several."""
    return [one for one in (found if isinstance(found, tuple | list) else [found]) if isinstance(one, Tensor)]


def same_tensor(one: Tensor, other: Tensor) -> bool:
    """Whether tensors have the same numbers; NaN is like NaN, which an output may have that is not filled yet."""
    return one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, tuple) or (isinstance(value, list) and not _is_flat(value)):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


def _is_flat(value: list[Any]) -> bool:
    return bool(value) and all(item is None or isinstance(item, bool | int | float | str) for item in value)
