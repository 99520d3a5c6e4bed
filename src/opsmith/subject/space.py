"""Makes the calls that a signature allows: sizes for its names, shapes from the sizes, numbers for its other arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from opsmith.spec.shapes import Shape
from opsmith.spec.signature import Kind, Parameter, Signature
from opsmith.subject.case import Case, TensorRecipe

__all__ = ["Choice", "Space"]

# Values for arguments that no default names; the first is the plain one.
_SCALARS: dict[Kind, tuple[Any, ...]] = {
    Kind.INT: (1, 2, 0, 3),
    Kind.FLOAT: (0.5, 1.0, 0.0, -1.5),
    Kind.BOOL: (True, False),
    Kind.STR: ("",),
    Kind.INT_LIST: ((1, 1), (2, 1)),
    Kind.FLOAT_LIST: ((0.5, 1.5), (1.0,)),
    Kind.OPTIONAL_INT: (None, 1, 2),
    Kind.OPTIONAL_FLOAT: (None, 0.5),
    Kind.OPTIONAL_BOOL: (None, True, False),
}


@dataclass(frozen=True)
class Choice:
    """What makes one call out of all that are allowed.

    `sizes` are by name (int arguments that stand in shapes too), `groups` the sizes of variadic groups; `layouts` and
    `values` are by parameter, with "" for all others; `absent` are optional tensors left out; `scalars` are arguments
    that are not tensors.
    """

    sizes: Mapping[str, int]
    groups: Mapping[str, tuple[int, ...]]
    layouts: Mapping[str, str]
    values: Mapping[str, str]
    absent: frozenset[str] = frozenset()
    scalars: Mapping[str, Any] = ()  # type: ignore[assignment]
    list_length: int = 2
    label: str = ""
    group: str = "plain"


class Space:
    """The calls that a signature allows, with element types still to be chosen."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of sizes, in the order in which the arguments have them."""
        found: dict[str, None] = {}
        for parameter in self.signature.tensors:
            for dim in parameter.tensor_type.shape.dims:
                if dim.expression is not None:
                    found |= dict.fromkeys(sorted(dim.expression.names))
        return tuple(found)

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """The names of variadic groups; "..." for anonymous ones."""
        shapes = [parameter.tensor_type.shape for parameter in self.signature.tensors]
        found = [_group_name(shape) for shape in shapes if shape.variadic_index is not None]
        return tuple(dict.fromkeys(found))

    @cached_property
    def optional(self) -> tuple[str, ...]:
        """The optional tensors."""
        return tuple(p.name for p in self.signature.tensors if p.kind is Kind.OPTIONAL_TENSOR)

    @cached_property
    def scalars(self) -> dict[str, tuple[Any, ...]]:
        """The arguments that are not tensors and no sizes, each with the values to try, the plain one first."""
        return {
            p.name: _values_of(p) for p in self.signature.parameters if p.tensor is None and p.name not in self.names
        }

    def case(self, choice: Choice, dtypes: Mapping[str, str], seed: int) -> Case | None:
        """Return the call of a choice, `dtypes` by template parameter, or None if a size would be negative."""
        arguments: dict[str, Any] = {}
        scalars = dict(choice.scalars or {})
        for index, parameter in enumerate(self.signature.parameters):
            if parameter.tensor is None:
                arguments[parameter.name] = (
                    choice.sizes[parameter.name]
                    if parameter.name in choice.sizes
                    else scalars.get(parameter.name, self.scalars[parameter.name][0])
                )
                continue
            if parameter.name in choice.absent:
                arguments[parameter.name] = None
                continue
            shape = self._shape(parameter.tensor_type.shape, choice)
            if shape is None:
                return None
            element = parameter.tensor_type.element
            recipe = TensorRecipe(
                shape,
                dtypes[letter] if (letter := parameter.tensor_type.letter) else element.name,  # type: ignore[union-attr]
                choice.layouts.get(parameter.name, choice.layouts.get("", "contiguous")),
                choice.values.get(parameter.name, choice.values.get("", "normal")),
                seed + index,
            )
            is_list = parameter.kind is Kind.TENSOR_LIST
            arguments[parameter.name] = self._several(recipe, choice.list_length) if is_list else recipe
        return Case(arguments, choice.label, choice.group)

    def elements(self, choice: Choice) -> int:
        """Return how many elements the inputs of a choice have."""
        shapes = [self._shape(parameter.tensor_type.shape, choice) for parameter in self.signature.tensors]
        return sum(math.prod(shape) for shape in shapes if shape is not None)

    def _several(self, recipe: TensorRecipe, length: int) -> tuple[TensorRecipe, ...]:
        items = range(length)
        return tuple(
            TensorRecipe(recipe.shape, recipe.dtype, recipe.layout, recipe.values, recipe.seed + 1000 * item)
            for item in items
        )

    def _shape(self, shape: Shape, choice: Choice) -> tuple[int, ...] | None:
        sizes: list[int] = []
        for dim in shape.dims:
            if dim.variadic:
                sizes += choice.groups[dim.group or "..."]
            elif dim.expression is None:
                sizes.append(3)
            else:
                try:
                    sizes.append(int(dim.expression.evaluate(choice.sizes)))
                except (ZeroDivisionError, OverflowError):
                    return None
        return None if any(size < 0 for size in sizes) else tuple(sizes)


def _group_name(shape: Shape) -> str:
    return shape.group or "..."


def _values_of(parameter: Parameter) -> tuple[Any, ...]:
    tried = _SCALARS[parameter.kind]
    if not parameter.has_default:
        return tried
    default = tuple(parameter.default) if isinstance(parameter.default, list | tuple) else parameter.default
    if parameter.kind in (Kind.BOOL, Kind.OPTIONAL_BOOL):
        return (default, *(value for value in tried if value is not default))
    if isinstance(default, float):
        # Half of a rate, a temperature or a margin is one, too.
        return (default, default / 2 if default else 0.5)
    # Other numbers may mean nothing, but the next one is likely to mean something.
    if isinstance(default, int):
        return (default, default + 1)
    if isinstance(default, tuple) and all(isinstance(number, int) for number in default):
        return (default, tuple(number + 1 for number in default))
    return (default,)
