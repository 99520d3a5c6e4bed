"""Finds out what the indices in an integer tensor count, by calling the reference with some.

Nothing in a signature says that `index` in `table[index]` counts the rows of the table. The reference does: it refuses an
index that is too large. So each size in turn is made larger than the others, and the largest index that it allows is tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from opsmith.spec.signature import Parameter
from opsmith.subject.choices_of_sizes import plain_choice
from opsmith.subject.placed_values import indices
from opsmith.subject.space import IndexBound, Space
from opsmith.subject.subject import Subject

__all__ = ["has_indices", "index_bounds", "with_index_bounds"]

_SMALL, _LARGER = 7, 23
# An index that is allowed to be that large where all sizes are small counts nothing.
_FREE = 1000
_FIXED = (64, 32, 16, 8, 4, 3, 2)


def with_index_bounds(subject: Subject) -> Subject:
    """Return a subject whose generated indices are those that its reference takes."""
    bounds = index_bounds(subject)
    return replace(subject, index_bounds=bounds) if bounds else subject


def index_bounds(subject: Subject) -> dict[str, IndexBound]:
    """Return what the indices in integer tensors count, by argument.

    The reference is called with some that are too large: one that does not look at them may crash.
    """
    probe = _probe(subject)
    if probe is None:
        return {}
    return {name: bound for name in probe.names if (bound := probe.bound_of(name)) is not None}


def has_indices(subject: Subject) -> bool:
    """Whether there are tensors that may hold indices, so that the reference is called to find out."""
    return _probe(subject) is not None


def _probe(subject: Subject) -> _Probe | None:
    space = subject.suite.space
    if space is None or not subject.dtypes:
        return None
    integers = [parameter for parameter in space.signature.tensors if _may_be_indices(parameter)]
    if not integers or len(integers) == len(space.signature.tensors):
        return None
    return _Probe(subject, space, tuple(parameter.name for parameter in integers))


class _Probe:
    """Calls the reference with indices of so many in one tensor, and with the first in the other integer tensors."""

    def __init__(self, subject: Subject, space: Space, names: tuple[str, ...]) -> None:
        self.names = names
        self._subject = subject
        self._space = space
        # What the processor has every function of.
        usual = [dtypes for dtypes in subject.dtypes if "float32" in dtypes.values()]
        self._dtypes: Mapping[str, str] = (usual or list(subject.dtypes))[0]

    def bound_of(self, name: str) -> IndexBound | None:
        """Return what the indices in a tensor count; None if any number will do, or if nothing is known."""
        small = dict.fromkeys(self._space.names, _SMALL)
        if self._takes(name, 0, _FREE, small):
            return None
        first = next((first for first in (0, 1) if self._takes(name, first, 1, small)), None)
        if first is None:
            return None
        for size in self._space.names:
            if self._takes(name, first, _LARGER, {**small, size: _LARGER}):
                return IndexBound(first, size)
        fixed = next((number for number in _FIXED if self._takes(name, first, number, small)), 0)
        return IndexBound(first, number=fixed)

    def _takes(self, name: str, first: int, size: int, sizes: Mapping[str, int]) -> bool:
        values = {other: indices(first, 1 if other != name else size) for other in self.names}
        groups = dict.fromkeys(self._space.groups, (_SMALL,))
        choice = replace(plain_choice(self._space), sizes=sizes, groups=groups, values=values)
        case = self._space.case(choice, self._dtypes, 1)
        if case is None:
            return False
        try:
            with torch.no_grad():
                self._subject.results(self._subject.reference, case.build())
        except Exception:
            return False
        return True


def _may_be_indices(parameter: Parameter) -> bool:
    return not parameter.mutated and all("int" in name for name in parameter.tensor_type.element_names)
