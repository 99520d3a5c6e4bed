"""Lists the calls of a check: every size, layout and kind of values that kernels are known to fail at, by name.

The suite is the same in every run but for the seed of its random numbers. Each case differs from the plain one in one
thing, so a failure shows what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from opsmith.spec.dtypes import DType
from opsmith.spec.signature import Kind, Parameter
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.layouts import LAYOUTS
from opsmith.subject.space import Choice, Space
from opsmith.subject.values import FLOAT_VALUES, ROWS_OF_VALUES, group_of_values
from opsmith.subject.variations import variations

__all__ = ["EDGES", "MOST_ELEMENTS", "Suite"]

# Around the widths of vectors, warps and blocks, and primes between them.
EDGES = (
    1,
    3,
    4,
    8,
    15,
    16,
    17,
    31,
    32,
    33,
    63,
    64,
    65,
    97,
    127,
    128,
    129,
    255,
    256,
    257,
    511,
    513,
    1000,
    1024,
    1025,
    4099,
)
# What other names are meanwhile; small and different, so that sizes that are mixed up do not fit.
_SMALL = (2, 3, 5, 4, 7, 6, 8, 9)
_GROUP = (3, 5)
_GROUPS = ((), (1,), (7,), (2, 3, 4), (2, 3, 4, 5), (2, 1, 3, 2, 2), (1, 1), (33, 65), (1023,), (4099,))
_EMPTY_GROUPS = ((0,), (3, 0), (0, 5, 2))
_LARGE = 70_001
# A case on the CPU has no more elements than this, so that a suite takes a second and not a minute.
MOST_ELEMENTS = 1 << 18


@dataclass(frozen=True)
class Suite:
    """The cases for one choice of element types, from a signature's space or from examples."""

    space: Space | None
    examples: tuple[Case, ...] = ()
    seed: int = 0
    most_elements: int = MOST_ELEMENTS
    mutated: tuple[str, ...] = ()
    left_out: frozenset[str] = frozenset()
    # By element types: a check goes through the same cases hundreds of times.
    _made: dict[tuple[tuple[str, str], ...], tuple[Case, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def cases(self, dtypes: Mapping[str, str], *groups: str) -> Iterator[Case]:
        """Return the cases of some groups (plain, equal, sizes, empty, large, layouts, values, special, scalars), or all."""
        key = tuple(dtypes.items())
        if key not in self._made:
            self._made[key] = (*self._examples(dtypes), *self._generated(dtypes))
        return (case for case in self._made[key] if not groups or case.group in groups)

    def plain(self, dtypes: Mapping[str, str]) -> Case:
        """Return the plainest case."""
        return next(self.cases(dtypes, "plain"))

    def given(self, dtypes: Mapping[str, str]) -> Iterator[Case]:
        """Yield the examples, each with a label, in these element types; a tensor whose type is fixed keeps it."""
        dtype = dtypes.get("T")
        pinned = self.space.signature.pinned if self.space is not None else frozenset()
        for index, example in enumerate(self.examples):
            case = replace(example, label=example.label or f"example {index + 1}", group="plain")
            yield case if dtype is None else case.changed(kept=pinned, dtype=dtype)

    def varied(self, dtypes: Mapping[str, str], *groups: str) -> Iterator[Case]:
        """Yield the examples with one thing changed: the cases of some groups among values, equal, special and scalars."""
        optional = self.space.optional if self.space is not None else ()
        scalars = self.space.scalars if self.space is not None else {}
        flags = {name: values[0] for name, values in scalars.items() if isinstance(values[0], bool)}
        for example in self.given(dtypes):
            yield from (case for case in variations(example, optional, flags, self.seed) if case.group in groups)

    def _generated(self, dtypes: Mapping[str, str]) -> Iterator[Case]:
        if self.space is None:
            return
        seen = set()
        for number, choice in enumerate(self._choices(self.space)):
            # One case may be large, the many of sizes may not.
            most = self.most_elements if choice.group == "large" else self.most_elements // 8
            # "N = 1025", and "big values, N = 1025"
            if self.space.elements(choice) > most or choice.label.rpartition(", ")[2] in self.left_out:
                continue
            seed = self.seed * 7919 + 31 * number
            case = self.space.case(choice, dtypes, seed)
            case = case and case.at_bounds()
            if case is not None and (key := repr((case.arguments, case.group))) not in seen:
                seen.add(key)
                yield replace(case, base=self._base(self.space, choice, dtypes, seed))

    def _base(self, space: Space, choice: Choice, dtypes: Mapping[str, str], seed: int) -> Case | None:
        """Return the call without what is particular about a choice."""
        if choice.group == "plain":
            return None
        if choice.group in ("layouts", "values", "equal", "special"):
            return space.case(replace(choice, layouts={}, values={}, label="plain", group="plain"), dtypes, seed)
        return space.case(self._plain(space), dtypes, seed)

    def even(self, dtypes: Mapping[str, str], values: str, seed: int) -> Case | None:
        """Return a call whose sizes are all one power of two: no kernel has a remainder to handle."""
        if self.space is None:
            return None
        plain = replace(self._plain(self.space), values={"": values})
        for size in (64, 32, 16, 8):
            shape = (size,) if not self.space.names else (2, size)
            choice = replace(
                plain, sizes=dict.fromkeys(self.space.names, size), groups=dict.fromkeys(self.space.groups, shape)
            )
            if self.space.elements(choice) <= self.most_elements:
                return self.space.case(choice, dtypes, seed)
        return None

    def _plain(self, space: Space) -> Choice:
        sizes = dict(zip(space.names, _cycle(_SMALL, len(space.names)), strict=True))
        return Choice(sizes, dict.fromkeys(space.groups, _GROUP), {}, {}, label="plain")

    def _choices(self, space: Space) -> Iterator[Choice]:
        base = self._plain(space)
        wide = self._wide(space)
        yield base
        yield replace(wide, label="dozens of elements")
        if any(_is_integer(parameter) for parameter in space.signature.tensors):
            yield replace(wide, values={"": "integers"}, label="integers of both signs")
        yield from self._sizes(space, base)
        yield from self._scalars(space, base)
        yield from self._layouts(space, wide)
        yield from self._values(space, wide)

    def _wide(self, space: Space) -> Choice:
        """Some dozens in each dimension, as far as a case may have that many elements."""
        base = self._plain(space)
        for factor in (8, 4, 2):
            sizes = {name: size * factor + 1 for name, size in base.sizes.items()}
            wide = replace(base, sizes=sizes, groups=dict.fromkeys(space.groups, (9, 33)))
            if space.elements(wide) <= MOST_ELEMENTS // 16:
                return wide
        return replace(base, groups=dict.fromkeys(space.groups, (9, 33)))

    def _sizes(self, space: Space, base: Choice) -> Iterator[Choice]:
        for name in space.names:
            for size in EDGES:
                sizes = {**base.sizes, name: size}
                yield replace(base, sizes=sizes, label=f"{name} = {size}", group="sizes")
            yield replace(base, sizes={**base.sizes, name: 0}, label=f"{name} = 0", group="empty")
            large = dict.fromkeys(space.names, 1) | {name: _LARGE}
            yield replace(base, sizes=large, label=f"{name} = {_LARGE}", group="large")
        for group in space.groups:
            for shape in _GROUPS:
                groups = {**base.groups, group: shape}
                yield replace(base, groups=groups, label=f"{group} = {shape}", group="sizes")
            for shape in _EMPTY_GROUPS:
                groups = {**base.groups, group: shape}
                yield replace(base, groups=groups, label=f"{group} = {shape}", group="empty")
            yield replace(base, groups={**base.groups, group: (_LARGE,)}, label=f"{group} = {_LARGE}", group="large")
        for size in (1, 4, 33) if space.names else ():
            equal = dict.fromkeys(space.names, size)
            yield replace(
                base, sizes=equal, groups=dict.fromkeys(space.groups, (size,)), label=f"all sizes {size}", group="sizes"
            )

    def _scalars(self, space: Space, base: Choice) -> Iterator[Choice]:
        for name in space.optional:
            yield replace(base, absent=frozenset({name}), label=f"without {name}", group="scalars")
        if len(space.optional) > 1:
            yield replace(base, absent=frozenset(space.optional), label="without optional tensors", group="scalars")
        for name, values in space.scalars.items():
            for value in values[1:]:
                label = f"{name} = {value!r}"
                yield replace(base, scalars={name: value}, label=label, group="scalars")
                # A window of three fits into no two elements.
                wide = replace(self._wide(space), scalars={name: value}, group="scalars")
                yield replace(wide, label=f"{label}, dozens of elements")
        for length in (1, 3) if any(p.kind is Kind.TENSOR_LIST for p in space.signature.tensors) else ():
            yield replace(base, list_length=length, label=f"lists of {length}", group="scalars")

    def _layouts(self, space: Space, base: Choice) -> Iterator[Choice]:
        tensors = [parameter.name for parameter in space.signature.tensors]
        four = replace(base, groups=dict.fromkeys(space.groups, (2, 3, 4, 5)))
        for layout in LAYOUTS:
            if layout == "contiguous":
                continue
            choice = four if layout == "channels_last" else base
            # An expanded tensor cannot be written to: several of its elements share memory.
            kept = dict.fromkeys(self.mutated, "contiguous") if layout == "expanded" else {}
            yield replace(choice, layouts={"": layout, **kept}, label=f"every tensor {layout}", group="layouts")
            if len(tensors) > 1:
                for name in tensors:
                    if name in kept:
                        continue
                    yield replace(choice, layouts={name: layout}, label=f"{name} {layout}", group="layouts")

    def _values(self, space: Space, base: Choice) -> Iterator[Choice]:
        tensors = list(space.signature.tensors)
        floating = [p.name for p in tensors if p.tensor_type.is_floating]
        for kind in FLOAT_VALUES:
            group = group_of_values(kind)
            if kind == "normal" or not floating:
                continue
            if len(floating) == 1 or kind not in ROWS_OF_VALUES:
                yield replace(base, values={"": kind}, label=f"{kind} values", group=group)
            if len(floating) > 1:
                for name in floating:
                    yield replace(base, values={name: kind}, label=f"{kind} values in {name}", group=group)
        # Long rows: what a sum of dozens does not show.
        for name in space.names if floating else ():
            long = replace(self._plain(space), sizes={**self._plain(space).sizes, name: 1025})
            for kind in ("big", "mixed"):
                yield replace(long, values={"": kind}, label=f"{kind} values, {name} = 1025", group="values")
        if any(map(_is_integer, tensors)):
            yield replace(base, values={"": "extremes"}, label="the ends of the integers", group="special")

    def _examples(self, dtypes: Mapping[str, str]) -> Iterator[Case]:
        for case in self.given(dtypes):
            label = case.label
            yield case
            for layout in LAYOUTS:
                if layout not in ("contiguous", "expanded"):
                    other = case.changed(layout=layout)
                    yield replace(other, label=f"{label}, every tensor {layout}", group="layouts", base=case)
            for name, recipe in case.tensors().items():
                if (strewn := _with_nan(recipe)) is not None and "[" not in name:
                    arguments = {**case.arguments, name: strewn}
                    yield Case(arguments, f"{label}, NaN in {name}", "special", base=case)


def _with_nan(recipe: TensorRecipe) -> TensorRecipe | None:
    numbers = recipe.numbers().clone()
    if not numbers.dtype.is_floating_point or numbers.numel() == 0:
        return None
    numbers.view(-1)[0] = float("nan")
    return replace(recipe, given=numbers)


def _is_integer(parameter: Parameter) -> bool:
    element = parameter.tensor_type.element
    names = (element.name,) if isinstance(element, DType) else element.allowed
    return any("int" in name for name in names)


def _cycle(values: tuple[int, ...], count: int) -> list[int]:
    return [values[index % len(values)] for index in range(count)]
