"""Observes what a kernel's calls do to memory: each case is run with several fillings of what lies around.

Four properties look at the same calls, so the calls are made once for all of them. Where results differ
between fillings, the case is run again with one thing changed at a time: `depends_on` says which elements depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from opsmith.checker.bits import Difference, differences
from opsmith.checker.calls import is_accepted
from opsmith.checker.main_types import for_types
from opsmith.checker.memory.guard import why_unguarded
from opsmith.checker.memory.observed_call import BODIES, ObservedCall, observe_call
from opsmith.checker.process.threads import on_threads
from opsmith.checker.process.timed_cases import TimedCases
from opsmith.checker.properties.context import Context
from opsmith.subject.case import Case
from opsmith.subject.choices_of_sizes import is_full_tile, is_tail
from opsmith.subject.placed_values import ABOVE_ZERO

__all__ = ["Observation", "depends_on", "observation_of", "observe_cases"]

# Body, margin and what lies around inputs: all three differ between any two.
_FILLINGS = ((BODIES[0], BODIES[1], "high"), (BODIES[1], BODIES[0], "low"), (BODIES[2], BODIES[2], "nan"))
_GROUPS = ("plain", "layouts", "scalars", "empty", "large", "sizes")
# Beyond this many sizes each element type takes every second one, in turns.
_MANY_SIZES = 54
# How often a case is repeated to learn whether results vary by themselves.
_REPEATS = 3


@dataclass(frozen=True)
class Observation:
    """What the calls of one case do to memory.

    `differs` says that results depend on the filling; `outside` and `gaps` name a write to memory outside every allocation
    (beside a block, or between the elements of an argument that may be written to), `changed` the inputs that were.
    """

    case: Case
    differs: bool
    outside: str
    gaps: str
    changed: str


@dataclass(frozen=True)
class Observations:
    """Those of all cases that there was time for, and how many more there are."""

    made: tuple[Observation, ...]
    left_out: int


def observe_cases(context: Context) -> Observations:
    """Observe all cases that the reference takes and the kernel does not refuse."""
    key = (id(context.subject), context.device, tuple(context.dtypes.items()))
    if key not in _observed:
        cases = TimedCases(context, _cases(context))
        _observed[key] = Observations(tuple(_observe(context, cases)), cases.left_out)
    return _observed[key]


_observed: dict[Any, Observations] = {}


def _observe(context: Context, cases: TimedCases) -> Iterator[Observation]:
    is_guarded = not why_unguarded(context.device)
    for number, case in enumerate(cases):
        if not is_accepted(context, case):
            continue
        calls = [
            observe_call(context, case, body=body, margin=margin, around=around, with_guard=is_guarded)
            for body, margin, around in _fillings(case, number)
        ]
        if all(call.error is None for call in calls):
            with on_threads(1):
                observation = observation_of(context, case, calls)
            yield observation


def observation_of(context: Context, case: Case, calls: list[ObservedCall]) -> Observation:
    """Return what calls of one case show."""
    outside = gaps = changed = ""
    for call in calls:
        outside = outside or _outside(call)
        for padded in call.inputs:
            may_write = padded.name.partition("[")[0] in context.subject.mutated
            if not may_write and padded.changed(elements=True):
                changed = changed or padded.name
            if padded.changed(elements=False):
                if may_write:
                    gaps = gaps or f"memory between the elements of {padded.name} was written"
                else:
                    changed = changed or f"memory between the elements of {padded.name}"
    differs = any(_differences(calls[0], call) for call in calls[1:])
    return Observation(case, differs, outside, gaps, changed)


def _cases(context: Context) -> Iterator[Case]:
    cases = list(for_types(context, context.subject.suite.cases(context.dtypes, *_GROUPS)))
    sizes = sum(_is_of_size(case) for case in cases)
    known = [dict(dtypes) for dtypes in context.subject.dtypes]
    turn = known.index(dict(context.dtypes)) if dict(context.dtypes) in known else 0
    for number, case in enumerate(cases):
        # What goes past the end does so for other rests too, and all numbers are one in memory.
        is_of_values = any(recipe.values == ABOVE_ZERO for recipe in case.tensors().values()) or is_full_tile(
            case.label
        )
        if is_of_values or (is_tail(case.label) and not context.thorough):
            continue
        if _is_of_size(case) and sizes > _MANY_SIZES and not context.thorough and (number + turn) % 2:
            continue
        yield case


def _is_of_size(case: Case) -> bool:
    return case.group == "sizes" and not case.has_options


def _fillings(case: Case, number: int) -> list[tuple[int, int, str]]:
    if case.group in ("sizes", "large"):
        return [_FILLINGS[0], _FILLINGS[1 + number % 2]]
    return list(_FILLINGS)


def _outside(call: ObservedCall) -> str:
    if call.damage is not None:
        return call.damage.describe(call.damaged or "memory that it allocated")
    return next((text for padded in call.inputs if (text := padded.stray_write())), "")


def _differences(one: ObservedCall, other: ObservedCall) -> list[Difference]:
    return differences(one.results, other.results, BODIES)


def depends_on(context: Context, case: Case, what: str) -> list[Difference]:
    """Return the results that depend on the `body` of what is allocated, or on what is `around` it and the inputs."""
    body, margin, around = _FILLINGS[0]
    is_guarded = not why_unguarded(context.device)
    changed = [
        (other, margin, around) if what == "body" else (body, other_margin, other_around)
        for other, other_margin, other_around in _FILLINGS[1:]
    ]

    def run(filling: tuple[int, int, str]) -> ObservedCall:
        return observe_call(context, case, body=filling[0], margin=filling[1], around=filling[2], with_guard=is_guarded)

    base = run(_FILLINGS[0])
    for filling in changed:
        other = run(filling)
        found = [] if base.error is not None or other.error is not None else _differences(base, other)
        if not found:
            continue
        is_steady = not any(
            _differences(first, run(again))
            for first, again in ((base, _FILLINGS[0]), (other, filling))
            for _ in range(_REPEATS)
        )
        # Of an operator whose results vary by themselves, only what holds the very bytes put there says anything.
        found = found if is_steady else [item for item in found if item.is_untouched]
        if found:
            return found
    return []
