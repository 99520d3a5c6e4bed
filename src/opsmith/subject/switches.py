"""Lists what a call may have the other way: optional tensors left out, flags flipped, other texts and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from opsmith.subject.scalar_values import is_unusual
from opsmith.subject.space import Choice, Space

__all__ = ["Switch", "combined_switches", "single_switches", "switched"]

# With so many optional tensors, every combination of them is tried; with more, every two.
_FEW_OPTIONAL = 3


@dataclass(frozen=True)
class Switch:
    """One thing that a call may have the other way: an optional tensor left out, or another value of an argument."""

    label: str
    absent: frozenset[str] = frozenset()
    scalars: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_number(self) -> bool:
        """Whether it is a number that a kernel may refuse."""
        return any(map(is_unusual, self.scalars.values()))


def combined_switches(space: Space) -> list[tuple[Switch, ...]]:
    """Return two switches at once, after every combination of few optional tensors; neither one alone nor all tensors."""
    optional = _optional(space)
    flags = [
        _of_value(name, values[1])
        for name, values in space.scalars.items()
        if len(values) > 1 and (isinstance(values[1], bool | str) or values[0] is None)
    ]
    pairs = combinations([*flags, *optional], 2)
    listed: list[tuple[Switch, ...]] = [both for both in pairs if not (both[0].absent and both[1].absent)]
    if len(optional) < 2:
        return listed
    counts = range(2, len(optional)) if len(optional) <= _FEW_OPTIONAL else (2,)
    return [*(chosen for count in counts for chosen in combinations(optional, count)), *listed]


def single_switches(space: Space) -> list[tuple[Switch, ...]]:
    """Return each switch alone, with every other text, and the one that leaves out all optional tensors.

    Numbers that a kernel may refuse are not among them.
    """
    optional = _optional(space)
    everything = Switch("without optional tensors", frozenset(space.optional))
    values = {
        name: [value for value in values[1:] if isinstance(value, bool | str)] or list(values[1:2])
        for name, values in space.scalars.items()
        if len(values) > 1 and (isinstance(values[1], bool | str) or values[0] is None)
    }
    others = [_of_value(name, value) for name, listed in values.items() for value in listed]
    found = [*optional, *([everything] if len(optional) > 1 else []), *others]
    return [(one,) for one in found if not one.is_number]


def switched(choice: Choice, switches: Iterable[Switch]) -> Choice:
    """Return a choice with some switches the other way, which its label names first."""
    listed = list(switches)
    absent = frozenset(name for one in listed for name in one.absent)
    scalars = {name: value for one in listed for name, value in one.scalars.items()}
    label = " and ".join(one.label for one in listed)
    return replace(choice, absent=absent, scalars=scalars, label=f"{label}, {choice.label}")


def _optional(space: Space) -> list[Switch]:
    return [Switch(f"without {name}", frozenset({name})) for name in space.optional]


def _of_value(name: str, value: Any) -> Switch:
    return Switch(f"{name} = {value!r}", scalars={name: value})
