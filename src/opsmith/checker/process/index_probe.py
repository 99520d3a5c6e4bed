"""Finds out in a child what integer tensors count: a reference that does not look at indices may crash at a large one."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from opsmith.checker.process.child import Ended, in_child
from opsmith.subject.index_bounds import has_indices, index_bounds
from opsmith.subject.subject import Subject

__all__ = ["with_bounds_of_a_child"]

_SILENCE_S = 20.0


def with_bounds_of_a_child(subject: Subject, until_s: float = inf) -> Subject | None:
    """Return a subject whose generated indices are those that its reference takes; None where it crashes at an index.

    What takes too long, or until `until_s`, a moment of time.monotonic, is not known either.
    """
    if not has_indices(subject):
        return subject
    found = None
    for message in in_child(lambda send: send(index_bounds(subject)), silence_s=_SILENCE_S, until_s=until_s):
        found = found if isinstance(message, Ended) else message
    if found is None:
        return None
    return replace(subject, index_bounds=found) if found else subject
