"""Gives a property as many of its cases as its time allows, in an order that has every kind of case early.

The oracle runs the reference a dozen times for each input, so a reference that loops in Python takes a second where a
kernel takes a millisecond. A property with less time tries the first cases of the same fixed order; the rest is counted.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

from opsmith.checker.properties.context import Context
from opsmith.subject.case import Case
from opsmith.subject.placed_values import are_indices

__all__ = ["TimedCases", "interleaved"]

# A property says nothing without these, so they are tried however long they take. A check with a limit has one.
_AT_LEAST, _AT_LEAST_IN_LIMIT = 4, 1


class TimedCases:
    """An iterable of the cases that there is time for; after the iteration, `left_out` counts the others."""

    def __init__(self, context: Context, cases: Iterable[Case]) -> None:
        self._context = context
        self._cases = interleaved(cases)
        self.left_out = 0

    def __iter__(self) -> Iterator[Case]:
        context = self._context
        at_least = _AT_LEAST_IN_LIMIT if context.is_limited else _AT_LEAST
        started_s = context.now_s()
        for index, case in enumerate(self._cases):
            if index == 1 and not context.is_limited:
                # The first call alone pays for libraries that initialize themselves.
                started_s = context.now_s()
            is_over = context.now_s() - started_s > context.seconds or time.monotonic() >= context.until_s
            if index >= at_least and is_over:
                self.left_out = len(self._cases) - index
                return
            yield case


def interleaved(cases: Iterable[Case]) -> list[Case]:
    """Return cases in the order in which they are tried: the plain ones, then one of each kind in turn.

    The order depends on the cases alone, so that with less time the first of the same ones are tried.
    """
    kinds: dict[Any, list[Case]] = {}
    for case in cases:
        kinds.setdefault(_kind(case), []).append(case)
    plain = [case for kind, listed in kinds.items() if kind[0] == "plain" for case in listed]
    others = [_spread(listed) if kind[0] == "sizes" else listed for kind, listed in kinds.items() if kind[0] != "plain"]
    return [*plain, *(case for turn in zip_longest(*others) for case in turn if case is not None)]


def _kind(case: Case) -> Any:
    """Return what a case changes: its group, and which size, or which layout or values some tensor has.

    Those with other options are a kind for each group, and come with the most telling ones first.
    """
    if case.has_options:
        return "options", case.group
    if case.group == "sizes":
        return case.group, case.label.partition(" = ")[0]
    recipes = case.tensors().values()
    kinds = {recipe.values for recipe in recipes if not are_indices(recipe.values)}
    unusual = {recipe.layout for recipe in recipes} - {"contiguous"} | kinds - {"normal"}
    return case.group, frozenset(unusual)


def _spread(cases: list[Case]) -> list[Case]:
    """Return cases so that any first few lie all over the list: the last, the first, the middle, the quarters and so on."""
    bits = max(0, len(cases) - 1).bit_length()
    backwards = [sum(1 << (bits - 1 - bit) for bit in range(bits) if index >> bit & 1) for index in range(1 << bits)]
    order = [0, len(cases) - 1, *backwards[1:]]
    return [cases[-1 - index] for index in dict.fromkeys(order) if index < len(cases)]
