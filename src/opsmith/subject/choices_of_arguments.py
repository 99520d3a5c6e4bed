"""Lists the calls of the group scalars: optional tensors left out, other numbers and texts, and two options at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, zip_longest
from typing import Any

from opsmith.spec.signature import Kind
from opsmith.subject.space import Choice, Space, has_free_sizes

__all__ = ["argument_choices"]

# So many of an argument's values are tried in small calls too: a window of three fits into no two elements.
_IN_SMALL = 2
_MOST_COMBINATIONS = 24
# With so many optional tensors, every combination of them is tried; with more, every two.
_FEW_OPTIONAL = 3


def argument_choices(space: Space, base: Choice, wide: Choice) -> Iterator[Choice]:
    """Yield the calls; `base` has a few elements and `wide` some dozens in each dimension.

    The first alternatives of all arguments come before the second ones of any.
    """
    for name in space.optional:
        yield replace(base, absent=frozenset({name}), label=f"without {name}", group="scalars")
    if len(space.optional) > 1:
        yield replace(base, absent=frozenset(space.optional), label="without optional tensors", group="scalars")
    for length in (1, 3, 6) if any(p.kind is Kind.TENSOR_LIST for p in space.signature.tensors) else ():
        yield replace(base, list_length=length, label=f"lists of {length}", group="scalars")
    if any(p.kind is Kind.TENSOR_LIST and has_free_sizes(p) for p in space.signature.tensors):
        yield replace(base, list_length=3, is_uneven=True, label="lists of tensors of unequal sizes", group="scalars")
    columns = [[(name, value) for value in values[1:]] for name, values in space.scalars.items()]
    turns = [[one for one in turn if one is not None] for turn in zip_longest(*columns)]
    yield from _of_turns(turns[:1], base, wide)
    yield from _combined(space, wide)
    yield from _of_turns(turns[1:], base, wide, start=1)


def _of_turns(turns: list[list[tuple[str, Any]]], base: Choice, wide: Choice, start: int = 0) -> Iterator[Choice]:
    for number, turn in enumerate(turns, start):
        for name, value in turn:
            label = f"{name} = {value!r}"
            if number < _IN_SMALL:
                yield replace(base, scalars={name: value}, label=label, group="scalars")
            large = replace(wide, scalars={name: value}, group="scalars")
            yield replace(large, label=f"{label}, dozens of elements")


@dataclass(frozen=True)
class _Switch:
    """One thing that a call may have the other way: an optional tensor left out, or another value of an argument."""

    label: str
    absent: frozenset[str] = frozenset()
    scalars: Mapping[str, Any] = field(default_factory=dict)


def _combined(space: Space, wide: Choice) -> Iterator[Choice]:
    """Yield calls with two options the other way, and with every combination of few optional tensors."""
    optional = [_Switch(f"without {name}", frozenset({name})) for name in space.optional]
    flags = [
        _Switch(f"{name} = {values[1]!r}", scalars={name: values[1]})
        for name, values in space.scalars.items()
        if len(values) > 1 and (isinstance(values[1], bool | str) or values[0] is None)
    ]
    pairs = combinations([*flags, *optional], 2)
    listed: list[tuple[_Switch, ...]] = [both for both in pairs if not (both[0].absent and both[1].absent)]
    if len(optional) > 1:
        # All but the single ones and all of them, which have come before.
        counts = range(2, len(optional)) if len(optional) <= _FEW_OPTIONAL else (2,)
        of_optional = [chosen for count in counts for chosen in combinations(optional, count)]
        listed = [*of_optional, *listed]
    for switches in listed[:_MOST_COMBINATIONS]:
        absent = frozenset(name for one in switches for name in one.absent)
        scalars = {name: value for one in switches for name, value in one.scalars.items()}
        label = " and ".join(one.label for one in switches)
        yield replace(wide, absent=absent, scalars=scalars, label=f"{label}, dozens of elements", group="scalars")
