"""Lists the calls of a check: every size, layout and kind of values that kernels are known to fail at, by name.

The suite is the same in every run but for the seed of its random numbers. Each case differs from the plain one in one
thing, so a failure shows what is wrong; those with other options differ in a size or a layout as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.choices_of_arguments import argument_choices
from opsmith.subject.choices_of_layouts import layout_choices
from opsmith.subject.choices_of_options import option_choices
from opsmith.subject.choices_of_sizes import (
    EDGES,
    MOST_ELEMENTS,
    longest_choices,
    plain_choice,
    size_choices,
    wide_choice,
)
from opsmith.subject.layouts import LAYOUTS, ODD_WHERE_ONE, SLICE_FOR_ALL
from opsmith.subject.space import Choice, Space
from opsmith.subject.values import FLOAT_VALUES, ROWS_OF_VALUES, group_of_values
from opsmith.subject.variations import variations

__all__ = ["EDGES", "MOST_ELEMENTS", "Suite"]

_MOST_OF_FIXED_SIZES = 1 << 20

# How many calls with other options in other sizes and layouts there are, as a part of all others.
_PART_OF_OPTIONS = 0.25
# So many texts of all arguments are tried with extreme values too.
_MOST_TEXTS = 16


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
        """Yield the examples with one thing changed: the cases of some groups among values, equal, special,
        scalars and sizes."""
        optional = self.space.optional if self.space is not None else ()
        scalars = self.space.scalars if self.space is not None else {}
        flags = {name: values[0] for name, values in scalars.items() if isinstance(values[0], bool)}
        for example in self.given(dtypes):
            yield from (case for case in variations(example, optional, flags, self.seed) if case.group in groups)

    def longest(self, dtypes: Mapping[str, str]) -> Iterator[Case]:
        """Yield calls with more than a million elements, which `cases` does not have."""
        for number, choice in enumerate(longest_choices(self.space) if self.space is not None else ()):
            if (case := self.space.case(choice, dtypes, self.seed * 7919 + number)) is not None:  # type: ignore[union-attr]
                yield case

    def _generated(self, dtypes: Mapping[str, str]) -> Iterator[Case]:
        if self.space is None:
            return
        seen = set()
        # Where all sizes are numbers, calls may be as large as they must be; of a very large one there is the plain call.
        least = self.space.elements(plain_choice(self.space))
        for number, choice in enumerate(self._choices(self.space)):
            # A few cases may be large, such as "B x N = 257 x 259"; the many of sizes may not.
            is_large = choice.group == "large" or " x " in choice.label
            most = self.most_elements if is_large else self.most_elements // 8
            # "N = 1025", and "big values, N = 1025"
            parts = {choice.label, *choice.label.split(", ")}
            elements = self.space.elements(choice)
            fits = elements <= most or elements == least <= _MOST_OF_FIXED_SIZES
            is_small = fits and self.space.has_small_results(choice)
            if (number and not is_small) or parts & self.left_out:
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
        if choice.with_options:
            sized = choice if choice.group == "layouts" else plain_choice(space)
            usual = replace(choice, layouts={}, sizes=sized.sizes, groups=sized.groups)
            with_options = space.case(replace(usual, label="plain", group="plain"), dtypes, seed)
            of_usual = replace(usual, absent=frozenset(), scalars={}, with_options=False, group="layouts")
            return with_options and replace(with_options, base=self._base(space, of_usual, dtypes, seed))
        if choice.group in ("layouts", "values", "equal", "special"):
            return space.case(replace(choice, layouts={}, values={}, label="plain", group="plain"), dtypes, seed)
        return space.case(plain_choice(space), dtypes, seed)

    def even(self, dtypes: Mapping[str, str], values: str, seed: int) -> Case | None:
        """Return a call whose sizes are all one power of two: no kernel has a remainder to handle."""
        if self.space is None:
            return None
        plain = replace(plain_choice(self.space), values={"": values})
        for size in (64, 32, 16, 8):
            shape = (size,) if not self.space.names else (2, size)
            choice = replace(
                plain, sizes=dict.fromkeys(self.space.names, size), groups=dict.fromkeys(self.space.groups, shape)
            )
            if self.space.elements(choice) <= self.most_elements:
                return self.space.case(choice, dtypes, seed)
        return None

    def _choices(self, space: Space) -> Iterator[Choice]:
        base = plain_choice(space)
        wide = wide_choice(space)
        listed = [base, replace(wide, label="dozens of elements")]
        if space.has_free_integers:
            listed.append(replace(wide, values={"": "integers"}, label="integers of both signs"))
        listed += size_choices(space, base)
        listed += argument_choices(space, base, wide)
        listed += layout_choices(space, wide, self.mutated)
        listed += self._values(space, wide)
        yield from listed
        yield from option_choices(space, base, wide, self.mutated, int(len(listed) * _PART_OF_OPTIONS))

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
        if floating:
            yield from _with_other_numbers(space, base)
            yield from _with_other_texts(space, base)
        # Long rows: what a sum of dozens does not show.
        for name in space.names if floating else ():
            long = replace(plain_choice(space), sizes={**plain_choice(space).sizes, name: 1025})
            for kind in ("big", "mixed"):
                yield replace(long, values={"": kind}, label=f"{kind} values, {name} = 1025", group="values")
        if space.has_free_integers:
            yield replace(base, values={"": "extremes"}, label="the ends of the integers", group="special")
            yield replace(base, values={"": "wide"}, label="integers beyond 16 and 32 bits", group="special")

    def _examples(self, dtypes: Mapping[str, str]) -> Iterator[Case]:
        for case in self.given(dtypes):
            label = case.label
            yield case
            for layout in LAYOUTS:
                if layout not in ("contiguous", "expanded", SLICE_FOR_ALL, ODD_WHERE_ONE):
                    other = case.changed(layout=layout)
                    yield replace(other, label=f"{label}, every tensor {layout}", group="layouts", base=case)
            for name, recipe in case.tensors().items():
                if (strewn := _with_nan(recipe)) is not None and "[" not in name:
                    arguments = {**case.arguments, name: strewn}
                    yield Case(arguments, f"{label}, NaN in {name}", "special", base=case)


def _with_other_numbers(space: Space, base: Choice) -> Iterator[Choice]:
    """Yield calls with extreme values and other numbers for arguments at once: each may have code of its own."""
    numbers = {
        name: values[1]
        for name, values in space.scalars.items()
        if len(values) > 1 and isinstance(values[1], int | float) and not isinstance(values[1], bool)
    }
    words = ", ".join(f"{name} = {value!r}" for name, value in numbers.items())
    for kind in ("mixed", "big", "special") if numbers else ():
        label, group = f"{kind} values, {words}", group_of_values(kind)
        yield replace(base, values={"": kind}, scalars=numbers, label=label, group=group)


def _with_other_texts(space: Space, base: Choice) -> Iterator[Choice]:
    """Yield calls with extreme values and another text for an argument: each is a function of its own."""
    others = [(name, text) for name, values in space.scalars.items() for text in values[1:] if isinstance(text, str)]
    for name, text in others[:_MOST_TEXTS]:
        for kind in ("steep", "special"):
            label, group = f"{kind} values, {name} = {text!r}", group_of_values(kind)
            yield replace(base, values={"": kind}, scalars={name: text}, label=label, group=group)


def _with_nan(recipe: TensorRecipe) -> TensorRecipe | None:
    numbers = recipe.numbers().clone()
    if not numbers.dtype.is_floating_point or numbers.numel() == 0:
        return None
    numbers.view(-1)[0] = float("nan")
    return replace(recipe, given=numbers)
