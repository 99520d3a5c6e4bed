"""What do a kernel's calls do to memory? Each case is run with several fillings of what is around; properties read this.

Four properties ask the same calls different questions, so the calls are made once for all of them. Where results differ
between fillings, the case is run again with one thing changed at a time: `depends_on` says which elements depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opsmith.checker.memory.guard import why_unguarded
from opsmith.checker.memory.observed_call import BODIES, Trial, attempt, is_accepted
from opsmith.checker.process.threads import on_threads
from opsmith.checker.process.timed_cases import TimedCases
from opsmith.checker.properties.context import Context
from opsmith.subject.case import Case

__all__ = ["Difference", "Seen", "depends_on", "differences", "same_bits", "survey"]

# Body, margin and what lies around inputs: all three differ between any two.
_FILLINGS = ((BODIES[0], BODIES[1], "high"), (BODIES[1], BODIES[0], "low"), (BODIES[2], BODIES[2], "nan"))
_GROUPS = ("plain", "layouts", "scalars", "empty", "large", "sizes")
# Beyond this many sizes each element type takes every second one, in turns.
_MANY_SIZES = 54
# How often a case is repeated to learn whether results vary by themselves.
_REPEATS = 3


@dataclass(frozen=True)
class Seen:
    """What the calls of one case did.

    `differs` says that results depend on the filling; `outside` and `gaps` name a write to memory that belongs to nobody
    (beside a block, or between the elements of an argument that may be written to), `changed` the inputs that were.
    """

    case: Case
    differs: bool
    outside: str
    gaps: str
    changed: str


@dataclass(frozen=True)
class Difference:
    """One result in which elements differ: its name, the first of them, and how many."""

    name: str
    index: tuple[int, ...]
    count: int
    elements: int
    is_untouched: bool = False  # they hold exactly what had been put there

    def __str__(self) -> str:
        where = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        return f"{self.name}{where} ({self.count} of {self.elements} elements)"


@dataclass(frozen=True)
class Survey:
    """What was seen in the cases, and for how many more of them there was no time."""

    seen: tuple[Seen, ...]
    left_out: int


def survey(context: Context) -> Survey:
    """Return what was seen in all cases that the reference takes and the kernel does not refuse."""
    key = (id(context.subject), context.device, tuple(context.dtypes.items()))
    if key not in _surveys:
        cases = TimedCases(context, _cases(context))
        _surveys[key] = Survey(tuple(_survey(context, cases)), cases.left_out)
    return _surveys[key]


_surveys: dict[Any, Survey] = {}


def _survey(context: Context, cases: TimedCases) -> Iterator[Seen]:
    is_guarded = not why_unguarded(context.device)
    for number, case in enumerate(cases):
        if not is_accepted(context, case):
            continue
        trials = [
            attempt(context, case, body=body, margin=margin, around=around, with_guard=is_guarded)
            for body, margin, around in _fillings(case, number)
        ]
        if all(trial.error is None for trial in trials):
            with on_threads(1):
                seen = look(context, case, trials)
            yield seen


def look(context: Context, case: Case, trials: list[Trial]) -> Seen:
    """Return what trials of one case show."""
    outside = gaps = changed = ""
    for trial in trials:
        outside = outside or _outside(trial)
        for place in trial.places:
            may_write = place.name.partition("[")[0] in context.subject.mutated
            if not may_write and place.changed(elements=True):
                changed = changed or place.name
            if place.changed(elements=False):
                if may_write:
                    gaps = gaps or f"memory between the elements of {place.name} was written"
                else:
                    changed = changed or f"memory between the elements of {place.name}"
    differs = any(differences(trials[0], trial) for trial in trials[1:])
    return Seen(case, differs, outside, gaps, changed)


def _cases(context: Context) -> Iterator[Case]:
    cases = list(context.subject.suite.cases(context.dtypes, *_GROUPS))
    sizes = sum(case.group == "sizes" for case in cases)
    known = [dict(dtypes) for dtypes in context.subject.dtypes]
    turn = known.index(dict(context.dtypes)) if dict(context.dtypes) in known else 0
    for number, case in enumerate(cases):
        if case.group == "sizes" and sizes > _MANY_SIZES and not context.thorough and (number + turn) % 2:
            continue
        yield case


def _fillings(case: Case, number: int) -> list[tuple[int, int, str]]:
    if case.group in ("sizes", "large"):
        return [_FILLINGS[0], _FILLINGS[1 + number % 2]]
    return list(_FILLINGS)


def _outside(trial: Trial) -> str:
    if trial.damage is not None:
        return trial.damage.describe(trial.damaged or "memory that it allocated")
    return next((text for place in trial.places if (text := place.strayed())), "")


def differences(one: Trial, other: Trial) -> list[Difference]:
    """Return the results that are not the same, bit by bit."""
    found = []
    for name in dict.fromkeys([*one.results, *other.results]):
        first, second = one.results.get(name), other.results.get(name)
        if first is None or second is None or first.shape != second.shape or first.dtype != second.dtype:
            elements = 0 if first is None else first.numel()
            found.append(Difference(name, (), elements, elements))
            continue
        differs = (_bits(first) != _bits(second)).any(dim=1)
        if bool(differs.any()):
            found.append(_describe(name, first, second, differs))
    return found


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have one shape, one type and the same bits; NaN equals itself then."""
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(_bits(one), _bits(other))


def depends_on(context: Context, case: Case, what: str) -> list[Difference]:
    """Return the results that depend on the `body` of what is allocated, or on what is `around` it and the inputs."""
    body, margin, around = _FILLINGS[0]
    is_guarded = not why_unguarded(context.device)
    changed = [
        (other, margin, around) if what == "body" else (body, other_margin, other_around)
        for other, other_margin, other_around in _FILLINGS[1:]
    ]

    def run(filling: tuple[int, int, str]) -> Trial:
        return attempt(context, case, body=filling[0], margin=filling[1], around=filling[2], with_guard=is_guarded)

    base = run(_FILLINGS[0])
    for filling in changed:
        other = run(filling)
        found = [] if base.error is not None or other.error is not None else differences(base, other)
        if not found:
            continue
        is_steady = not any(
            differences(first, run(again))
            for first, again in ((base, _FILLINGS[0]), (other, filling))
            for _ in range(_REPEATS)
        )
        # Of an operator whose results vary by themselves, only what holds the very bytes put there says anything.
        found = found if is_steady else [item for item in found if item.is_untouched]
        if found:
            return found
    return []


def _describe(name: str, first: Tensor, second: Tensor, differs: Tensor) -> Difference:
    flat = int(differs.to(torch.uint8).argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), first.shape)) if first.dim() else ()
    untouched = [any(bool((_bits(tensor)[differs] == body).all()) for body in BODIES) for tensor in (first, second)]
    return Difference(name, index, int(differs.sum()), first.numel(), all(untouched))


def _bits(tensor: Tensor) -> Tensor:
    """Return the bytes of a tensor on the CPU, a row for each element."""
    flat = tensor.detach().cpu().resolve_conj().contiguous().reshape(-1)
    return flat.view(torch.uint8).reshape(flat.numel(), flat.element_size())
