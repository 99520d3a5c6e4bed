"""Makes the calls that a signature allows: sizes for its names, shapes from the sizes, numbers for its other arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from opsmith.spec.shapes import Shape
from opsmith.spec.signature import Kind, Parameter, Signature
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.placed_values import are_indices, between, indices
from opsmith.subject.scalar_values import values_of
from opsmith.subject.values import INTEGER_VALUES

__all__ = ["Choice", "IndexBound", "Space", "has_free_sizes"]

# Elements: 32 MB in float64, and the check has a dozen such tensors.
_MOST_OF_A_RESULT = 1 << 22


@dataclass(frozen=True)
class Choice:
    """What makes one call out of all that are allowed.

    `sizes` are by name (int arguments that stand in shapes too), `groups` the sizes of variadic groups; `layouts` and
    `values` are by parameter, with "" for all others; `absent` are optional tensors left out; `scalars` are arguments
    that are not tensors. `is_uneven` says that sizes without a name are others in each tensor of a list, `with_options`
    that `absent` and `scalars` come beside a size or a layout that is tried for the usual ones as well.
    """

    sizes: Mapping[str, int]
    groups: Mapping[str, tuple[int, ...]]
    layouts: Mapping[str, str]
    values: Mapping[str, str]
    absent: frozenset[str] = frozenset()
    scalars: Mapping[str, Any] = ()  # type: ignore[assignment]
    list_length: int = 2
    is_uneven: bool = False
    with_options: bool = False
    label: str = ""
    group: str = "plain"


@dataclass(frozen=True)
class IndexBound:
    """What the indices in a tensor count, from 0 or from 1: the name of a size, or a number.

    Where neither is known, the smallest size of the other tensors.
    """

    first: int = 0
    size: str = ""
    number: int = 0


class Space:
    """The calls that a signature allows, with element types still to be chosen."""

    def __init__(
        self,
        signature: Signature,
        named: Mapping[str, tuple[Any, ...]] | None = None,
        index_bounds: Mapping[str, IndexBound] | None = None,
        given: Mapping[str, tuple[Any, ...]] | None = None,
        integers: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        """`named` are values that the body names, `given` those of the examples, `index_bounds` what limits integer
        tensors, and `integers` between which numbers theirs lie, each by argument."""
        self.signature = signature
        self._named = named or {}
        self._index_bounds = index_bounds or {}
        self._given = given or {}
        self._integers = integers or {}

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
            p.name: values_of(p, (*p.choices, *self._named.get(p.name, ())), self._given.get(p.name, ()))
            for p in self.signature.parameters
            if p.tensor is None and p.name not in self.names
        }

    @cached_property
    def has_free_integers(self) -> bool:
        """Whether there are integer tensors whose numbers may be any of their type."""
        return any(_may_be_integers(one) and one.name not in self._integers for one in self.signature.tensors)

    @cached_property
    def sizes_of_results(self) -> tuple[str, ...]:
        """The int arguments that are sizes of results and of no input."""
        dims = [dim for output in self.signature.outputs for dim in output.tensor.shape.dims]
        named = {name for dim in dims if dim.expression is not None for name in dim.expression.names}
        return tuple(name for name in self.scalars if name in named)

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
                self._values(parameter, choice),
                seed + index,
            )
            is_list = parameter.kind is Kind.TENSOR_LIST
            arguments[parameter.name] = self._several(parameter, recipe, choice) if is_list else recipe
        return Case(arguments, choice.label, choice.group)

    def elements(self, choice: Choice) -> int:
        """Return how many elements the inputs of a choice have."""
        shapes = [self._shape(parameter.tensor_type.shape, choice) for parameter in self.signature.tensors]
        return sum(math.prod(shape) for shape in shapes if shape is not None)

    def has_small_results(self, choice: Choice) -> bool:
        """Whether the results of a choice fit anywhere: of 70,001 rows all pairs are 39 GB in float64."""
        plain = {name: values[0] for name, values in self.scalars.items()}
        numbers = {**plain, **dict(choice.scalars or {}), **choice.sizes}
        known = replace(choice, sizes={name: one for name, one in numbers.items() if isinstance(one, int)})
        shapes = (output.tensor.shape for output in self.signature.outputs)
        # What the data decide, as of what is kept, is no more than the inputs.
        sizes = (self._shape(shape, known) for shape in shapes if shape.names <= known.sizes.keys())
        return all(shape is None or math.prod(shape) <= _MOST_OF_A_RESULT for shape in sizes)

    def _values(self, parameter: Parameter, choice: Choice) -> str:
        """Return the kind of values of a tensor: of indices that are known to have a bound, those below it."""
        kind = choice.values.get(parameter.name, choice.values.get("", "normal"))
        bound, limits = self._index_bounds.get(parameter.name), self._integers.get(parameter.name)
        if are_indices(kind) or (limits is None and (bound is None or kind in INTEGER_VALUES)):
            return kind
        if bound is None:
            assert limits is not None
            return between(*limits)
        if bound.size:
            return indices(bound.first, choice.sizes[bound.size])
        if bound.number:
            return indices(bound.first, bound.number)
        others = [self._shape(p.tensor_type.shape, choice) for p in self.signature.tensors if p is not parameter]
        return indices(bound.first, min((size for shape in others for size in shape or () if size > 0), default=1))

    def _several(self, parameter: Parameter, recipe: TensorRecipe, choice: Choice) -> tuple[TensorRecipe, ...]:
        """Return a list's recipes, whose sizes without a name (`_`) may differ."""
        dims = parameter.tensor_type.shape.dims
        is_uneven = choice.is_uneven and has_free_sizes(parameter)
        free = [is_uneven and dims[axis].expression is None for axis in range(len(recipe.shape))]
        return tuple(
            replace(
                recipe,
                shape=tuple(size + item * is_free for size, is_free in zip(recipe.shape, free, strict=True)),
                layout=choice.layouts.get(f"{parameter.name}[{item}]", recipe.layout),
                seed=recipe.seed + 1000 * item,
            )
            for item in range(choice.list_length)
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


def has_free_sizes(parameter: Parameter) -> bool:
    """Whether a tensor has a size without a name; with a group of sizes, which stands for some, none is looked for."""
    shape = parameter.tensor_type.shape
    return shape.variadic_index is None and any(dim.expression is None for dim in shape.dims)


def _may_be_integers(parameter: Parameter) -> bool:
    return any("int" in name for name in parameter.tensor_type.element_names)


def _group_name(shape: Shape) -> str:
    return shape.group or "..."
