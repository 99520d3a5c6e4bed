"""How many inputs are there time for? A reference that loops in Python takes a second where a kernel takes a millisecond.

The oracle runs it a dozen times for each input, and a check of minutes is a check that nobody makes. So inputs on which
the reference is slow are left out, and of the others each property tries as many as its time allows: always the same
first ones, and those of every kind. What was not tried is counted and told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import torch

from opsmith.checker.process.clock import now_s
from opsmith.checker.process.threads import on_threads
from opsmith.checker.properties.context import Context
from opsmith.subject.case import Case
from opsmith.subject.subject import Subject

__all__ = ["Timed", "in_turns", "paced"]

# How long the reference may take for one input. What works on whole tensors takes less than a millisecond, a loop over
# some thousand elements fifty.
_MOST_S = 0.014
# Whatever they take: without these nothing could be said of a property.
_AT_LEAST = 4


class Timed:
    """Cases as far as a property's time goes. `left_out` counts, after they were gone through, those that it did not."""

    def __init__(self, context: Context, cases: Iterable[Case]) -> None:
        self._seconds = context.seconds
        self._device = context.device
        self._cases = in_turns(cases)
        self.left_out = 0

    def __iter__(self) -> Iterator[Case]:
        started = now_s(self._device)
        for index, case in enumerate(self._cases):
            if index == 1:
                # What a first call alone takes, of libraries that set themselves up, does not count.
                started = now_s(self._device)
            if index >= _AT_LEAST and now_s(self._device) - started > self._seconds:
                self.left_out = len(self._cases) - index
                return
            yield case


def in_turns(cases: Iterable[Case]) -> list[Case]:
    """Return cases in the order in which they are tried: the plain ones, and then of each kind one at a time.

    The order depends on the cases alone, so that who has less time tries the first of the same ones.
    """
    kinds: dict[Any, list[Case]] = {}
    for case in cases:
        kinds.setdefault(_kind(case), []).append(case)
    plain = [case for kind, listed in kinds.items() if kind[0] == "plain" for case in listed]
    others = [_spread(listed) if kind[0] == "sizes" else listed for kind, listed in kinds.items() if kind[0] != "plain"]
    return [*plain, *(case for turn in zip_longest(*others) for case in turn if case is not None)]


def _kind(case: Case) -> Any:
    """Return what a case changes: which size, or which layout or values some tensor has; and its group, first."""
    if case.group == "sizes":
        return case.group, case.label.partition(" = ")[0]
    recipes = case.tensors().values()
    unusual = {recipe.layout for recipe in recipes} - {"contiguous"} | {recipe.values for recipe in recipes} - {
        "normal"
    }
    return case.group, frozenset(unusual)


def _spread(cases: list[Case]) -> list[Case]:
    """Return cases so that the first few of them lie all over the list: the last, the middle, the quarters and so on."""
    bits = max(0, len(cases) - 1).bit_length()
    backwards = [sum(1 << (bits - 1 - bit) for bit in range(bits) if index >> bit & 1) for index in range(1 << bits)]
    return [cases[-1 - index] for index in backwards if index < len(cases)]


def paced(subject: Subject) -> Subject:
    """Return a subject without the sizes for which its reference is slow, and a note that says so."""
    if subject.signature is None or not subject.dtypes:
        return subject
    dtypes = subject.dtypes[0]
    _seconds_of(subject, subject.suite.plain(dtypes))  # what a first call alone takes does not count
    by_name: dict[str, list[Case]] = {}
    for case in subject.suite.cases(dtypes, "sizes", "large"):
        by_name.setdefault(case.label.partition(" = ")[0], []).append(case)
    left_out: set[str] = set()
    slow: list[str] = []
    for cases in by_name.values():
        # From small to large, so that the reference is never waited for longer than it takes to see that it is slow.
        ascending = sorted(cases, key=lambda case: case.elements)
        for index, case in enumerate(ascending):
            if index < len(ascending) // 2 or (seconds := _seconds_of(subject, case)) <= _MOST_S:
                continue
            left_out |= {other.label for other in ascending[index:]}
            slow.append(f"{seconds:.2f} s for {case.label}")
            break
    if not slow:
        return subject
    note = f"the reference takes {', '.join(slow)}: inputs of that size and larger are left out (--thorough tries them)"
    return replace(subject, left_out=frozenset(left_out), notes=(*subject.notes, note))


def _seconds_of(subject: Subject, case: Case) -> float:
    """Return the processor time of the reference, the best of three; 0 where it does not take the input."""
    taken: list[float] = []
    values: dict[str, Any] = case.build()
    for _ in range(3):
        started = now_s("cpu")
        try:
            # On one thread: on a busy machine threads wait for each other longer than they work.
            with torch.no_grad(), on_threads(1):
                subject.results(subject.reference, values)
        except Exception:
            return 0.0
        taken.append(now_s("cpu") - started)
        if taken[-1] <= _MOST_S:
            break
    return min(taken)
