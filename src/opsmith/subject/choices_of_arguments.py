"""Lists the calls of the group scalars: optional tensors left out, other numbers and texts, and two options at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from opsmith.spec.signature import Kind
from opsmith.subject.space import Choice, Space, has_free_sizes
from opsmith.subject.switches import combined_switches, switched

__all__ = ["argument_choices"]

# So many of an argument's values are tried in small calls too: a window of three fits into no two elements.
_IN_SMALL = 2
_MOST_COMBINATIONS = 24
# Of lists: as few as there are, more than four at once, and more than eight.
_LENGTHS = (1, 3, 6, 9)


def argument_choices(space: Space, base: Choice, wide: Choice) -> Iterator[Choice]:
    """Yield the calls; `base` has a few elements and `wide` some dozens in each dimension.

    The first alternatives of all arguments come before the second ones of any.
    """
    for name in space.optional:
        yield replace(base, absent=frozenset({name}), label=f"without {name}", group="scalars")
    if len(space.optional) > 1:
        yield replace(base, absent=frozenset(space.optional), label="without optional tensors", group="scalars")
    for length in _LENGTHS if any(p.kind is Kind.TENSOR_LIST for p in space.signature.tensors) else ():
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


def _combined(space: Space, wide: Choice) -> Iterator[Choice]:
    """Yield calls with two options the other way, and with every combination of few optional tensors."""
    choice = replace(wide, label="dozens of elements", group="scalars")
    yield from (switched(choice, switches) for switches in combined_switches(space)[:_MOST_COMBINATIONS])
