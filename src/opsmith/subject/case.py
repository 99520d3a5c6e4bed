"""Describes the input of a call as plain data, from which any process can rebuild its tensors.

A recipe gives shape, element type, layout, kind of values and a seed; `build` makes the tensor. The same recipe gives
the same values on every device, and the same values in every element type as far as the type can hold them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from opsmith.subject.layouts import lay_out
from opsmith.subject.values import fill

__all__ = ["Case", "TensorRecipe"]

_Device = str | torch.device

# Where a function with a bound or a step may jump, as parts of it.
_AT_BOUNDS = (1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5)
# A property builds the same few cases over and over, and random numbers cost ten times as much as a copy of them.
_REMEMBERED, _MOST_REMEMBERED_ELEMENTS = 32, 1 << 18


@dataclass(frozen=True)
class TensorRecipe:
    """One tensor. `shape` in elements, `dtype` by PyTorch's name; `layout` and `values` by the names of their tables.

    `given` are explicit values, of an example or of a case that was made smaller by hand; `values` and `seed` then say
    nothing. `near` are numbers that `ties` lie at besides integers and halves.
    """

    shape: tuple[int, ...]
    dtype: str
    layout: str = "contiguous"
    values: str = "normal"
    seed: int = 0
    given: Tensor | None = field(default=None, compare=False)
    near: tuple[float, ...] = ()

    def numbers(self, drawn_on: _Device = "cpu") -> Tensor:
        """Return the values, contiguous and on the device that they are drawn on."""
        dtype = getattr(torch, self.dtype)
        if self.given is not None:
            # A copy: a kernel that writes to its inputs must not change the recipe.
            return self.given.detach().to(drawn_on, dtype).clone(memory_format=torch.contiguous_format)
        if math.prod(self.shape) > _MOST_REMEMBERED_ELEMENTS:
            return fill(self.shape, dtype, self.values, self.seed, self.near, drawn_on)
        return _remembered(self.shape, dtype, self.values, self.seed, self.near, drawn_on).clone()

    def build(self, device: _Device, drawn_on: _Device = "cpu") -> Tensor:
        """Return the tensor on a device, in its layout."""
        return lay_out(self.numbers(drawn_on).to(device), self.layout)


@dataclass(frozen=True)
class Case:
    """The arguments of one call, by parameter: recipes, lists of recipes, None, numbers and texts.

    `label` describes what is particular about it; `group` is the part of the suite it belongs to. `base` is the same
    call without what is particular: an operator that is wrong there too is not wrong because of it. Where options are
    tried in another size or layout, it has the options, and a base of its own without them. `one_tensor` names two
    arguments that are the same tensor, not two equal ones.
    """

    arguments: Mapping[str, Any]
    label: str = ""
    group: str = "plain"
    base: Case | None = field(default=None, compare=False, repr=False)
    one_tensor: tuple[str, ...] = ()

    @property
    def has_options(self) -> bool:
        """Whether it has both other options than usual and another size or layout."""
        return self.base is not None and self.base.base is not None

    @property
    def usual(self) -> Case:
        """The call without anything particular; the case itself where there is nothing."""
        return self if self.base is None else self.base.usual

    def build(self, device: _Device = "cpu", drawn_on: _Device = "cpu") -> dict[str, Any]:
        """Return the arguments, with new tensors.

        The numbers are drawn on the CPU, so that all devices have the same ones. On a GPU that is done sooner.
        """
        values = {name: _build(value, device, drawn_on) for name, value in self.arguments.items()}
        if self.one_tensor:
            values |= dict.fromkeys(self.one_tensor, values[self.one_tensor[0]])
        return values

    def tensors(self) -> dict[str, TensorRecipe]:
        """Return the recipes by name; those of a list as `name[0]`, `name[1]`, ..."""
        found: dict[str, TensorRecipe] = {}
        for name, value in self.arguments.items():
            if isinstance(value, TensorRecipe):
                found[name] = value
            elif _is_list_of_recipes(value):
                found |= {f"{name}[{index}]": item for index, item in enumerate(value)}
        return found

    def changed(self, *, kept: frozenset[str] = frozenset(), **changes: Any) -> Case:
        """Return the case with other fields for every tensor's recipe (`layout="contiguous"`, `dtype="float64"`).

        The arguments that `kept` names stay as they are.
        """

        def change(value: Any) -> Any:
            if isinstance(value, TensorRecipe):
                return replace(value, **_fitting(value, changes))
            if _is_list_of_recipes(value):
                return tuple(replace(item, **_fitting(item, changes)) for item in value)
            return value

        return replace(
            self,
            arguments={name: value if name in kept else change(value) for name, value in self.arguments.items()},
        )

    def at_bounds(self) -> Case:
        """Return the case with ties at its float arguments too, which may be bounds, and at halves of them and opposites."""
        flat = (item for value in self.arguments.values() for item in (value if isinstance(value, tuple) else (value,)))
        floats = [item for item in flat if isinstance(item, float) and math.isfinite(item)]
        if not floats or all(recipe.values != "ties" for recipe in self.tensors().values()):
            return self
        return self.changed(near=tuple(dict.fromkeys(item * factor for factor in _AT_BOUNDS for item in floats)))

    @property
    def elements(self) -> int:
        """How many elements all tensors have."""
        return sum(torch.Size(recipe.shape).numel() for recipe in self.tensors().values())


_remembered = lru_cache(maxsize=_REMEMBERED)(fill)


def _fitting(recipe: TensorRecipe, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes that make sense for a tensor: indices do not take another floating type."""
    kept = dict(changes)
    dtype = kept.get("dtype")
    if dtype is not None and _is_floating(dtype) != _is_floating(recipe.dtype):
        del kept["dtype"]
    return kept


def _is_floating(dtype: str) -> bool:
    return bool(getattr(torch, dtype).is_floating_point)


def _build(value: Any, device: _Device, drawn_on: _Device) -> Any:
    if isinstance(value, TensorRecipe):
        return value.build(device, drawn_on)
    if _is_list_of_recipes(value):
        return [item.build(device, drawn_on) for item in value]
    return list(value) if isinstance(value, tuple) else value


def _is_list_of_recipes(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and all(isinstance(item, TensorRecipe) for item in value)
