"""Asks for other numbers than a task's own in its shapes and types: of other kinds, or of which few, or last bits, count."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from torch import Tensor

from opsmith.judging.complex_pairs import in_pairs
from opsmith.judging.holding import hold_other, hold_taken
from opsmith.judging.other_numbers import STREWN, cases_of_kinds, changed, strewn, values_of, with_own_sign
from opsmith.judging.scaled import bytes_of
from opsmith.judging.structure import Structure, is_choice, structures_of
from opsmith.judging.structured import with_structure
from opsmith.judging.tasks.trees import differs
from opsmith.judging.trial import Trial, Values
from opsmith.judging.uneven import LOST_BITS, layered, rounded_down, thinned, with_large_ends
from opsmith.subject.case import Case
from opsmith.subject.draws import Draws
from opsmith.subject.examples import as_case

__all__ = [
    "PosedDraws",
    "other_kinds",
    "other_kinds_in_places",
    "own_last_bits",
    "own_made_small",
    "own_with_large_ends",
]

# Other kinds of numbers, see `subject.values`: over six decades, all near a hundred, all small, integers and halves.
_KINDS = ("mixed", "big", "faint", "ties")
# The second of these with all signs turned as well: a maximum that begins at 0 is right for all but negative numbers.
_FAR_UP, _FAR_DOWN = "big values", "big negative values"
# Kinds that come in calls with the task's own numbers. What is mixed can have a result beside which no other counts, as of
# exp, so that one call has none.
_STREWN_KINDS = (("mixed", "big"), ("big", "faint", "ties"))
# Of how many arguments each is thinned, the largest ones, and in how many ways parts are made smaller (see `uneven`).
_THINNED, _LAYERED = 4, 2


@dataclass(frozen=True)
class PosedDraws:
    """One call of the task: its name, what makes its inputs, and the seed that they begin at; `weights` are among these."""

    label: str
    make: Callable[[int], Values]
    seed: int
    weights: Collection[str] = ()

    def values(self, number: int) -> Values:
        """Return the inputs of a number."""
        return self.make(self.seed + number)

    @cached_property
    def structures(self) -> Mapping[str, Structure]:
        """What all draws of each argument have in common."""
        return structures_of(self.make, self.seed)

    @cached_property
    def constant(self) -> frozenset[str]:
        """The inputs that are the same for every seed, as a table of angles: other numbers of these are not asked."""
        one, other = self.values(0), self.values(1)
        inputs = (name for name in one if name not in self.weights)
        return frozenset(name for name in inputs if not differs(one[name], other[name]))


def other_kinds(trial: Trial, posed: PosedDraws, earlier: list[list[Tensor]]) -> None:
    """Numbers of other kinds in the same shapes: code that is for some numbers only has them before it."""
    like = posed.values(0)
    for case in cases_of_kinds(trial.task, like, _KINDS, posed.seed, posed.constant):
        values = with_structure(values_of(case, like, trial.cell.device), like, posed.structures)
        _hold_in_domain(trial, posed, case, values, like, earlier)
        if case.label == _FAR_UP:
            turned = {name: _turned(value, like[name]) for name, value in values.items()}
            if any(turned[name] is not values[name] for name in values):
                down = with_structure(turned, like, posed.structures)
                hold_other(trial, posed.label, replace(case, label=_FAR_DOWN), down, earlier)


def other_kinds_in_places(trial: Trial, posed: PosedDraws, earlier: list[list[Tensor]]) -> None:
    """The task's numbers, but for some of each kind that nobody sees who looks at a part of them only."""
    for number, (most, kinds) in enumerate(itertools.product(STREWN, _STREWN_KINDS)):
        old = posed.values(number)
        values, draws = dict(old), Draws(posed.seed + number)
        for case in cases_of_kinds(trial.task, old, kinds, posed.seed + (number + 1) * len(_KINDS), posed.constant):
            others = values_of(case, old, trial.cell.device)
            values |= {name: changed(value, others[name], strewn(draws, most)) for name, value in values.items()}
        if any(values[name] is not old[name] for name in old):
            values = with_structure(values, old, posed.structures)
            label = f"{', '.join(kinds)} values in some places"
            case = replace(as_case(in_pairs(values), trial.task.parameters), label=label, group="values")
            _hold_in_domain(trial, posed, case, values, old, earlier)


def _hold_in_domain(
    trial: Trial, posed: PosedDraws, case: Case, values: Values, own: Values, earlier: list[list[Tensor]]
) -> None:
    """Hold a candidate to other numbers; where the reference does not take all of them, to those that it may take.

    First they may have signs that none of the task's own have, of which the domain may be none: of a quotient of negative
    numbers there is a logarithm.
    """
    signed = {name: with_own_sign(value, own[name]) for name, value in values.items()}
    has_other_signs = any(signed[name] is not values[name] for name in values)
    if hold_other(trial, posed.label, case, values, earlier, has_other_signs=has_other_signs):
        return
    for tried in _nearer(values, signed, own):
        kept = with_structure(tried, own, posed.structures)
        recipes = as_case(in_pairs(kept), trial.task.parameters)
        hold_other(trial, posed.label, replace(recipes, label=case.label, group=case.group), kept, earlier)


def _nearer(values: Values, signed: Values, own: Values) -> Iterator[Values]:
    """Yield other numbers with the sign of the task's own, where these have one, and then those of one argument alone."""
    if any(signed[name] is not values[name] for name in values):
        yield signed
    changed_names = [name for name in values if values[name] is not own[name]]
    if len(changed_names) > 1:
        yield from ({**own, name: signed[name]} for name in changed_names)


def _turned(value: Any, own: Any) -> Any:
    """Return the opposite of other numbers, where the task's own have both signs."""
    is_other = isinstance(value, Tensor) and value is not own and value.is_floating_point()
    return -value if is_other and bool((own < 0).any()) else value


def own_made_small(trial: Trial, posed: PosedDraws, earlier: list[list[Tensor]]) -> None:
    """The task's numbers, but for one or several tensors in which few of them decide, or a part (see `uneven`)."""
    task, own = trial.task, posed.values(0)
    given = [name for name in task.parameters if name not in task.lifted and not is_choice(own[name])]
    largest = sorted(given, key=lambda name: -bytes_of(own[name]))[:_THINNED]
    ways: list[tuple[list[str], Callable[[Draws], Callable[[Tensor, Tensor], Tensor]]]] = [
        *(([name], thinned) for name in largest),
        (largest[:1], partial(thinned, of_all=True)),
        *[(given, layered)] * _LAYERED,
    ]
    for number, (names, make) in enumerate(ways):
        values = _own_changed(posed, number, make(Draws(posed.seed + number)), names)
        if values is not None:
            hold_taken(trial, values, f"{posed.label}, some of its numbers much smaller", earlier)


def own_with_large_ends(trial: Trial, posed: PosedDraws, earlier: list[list[Tensor]]) -> None:
    """The task's numbers, but for larger ones in the first and last rows, then columns, and then numbers of all tensors."""
    for number, (dim, ends) in enumerate({0: "rows", -1: "columns", None: "numbers"}.items()):
        given = [name for name in trial.task.parameters if name not in trial.task.lifted]
        values = _own_changed(posed, number, with_large_ends(dim), given)
        if values is not None:
            label = f"the first and last {ends} much larger"
            case = replace(as_case(in_pairs(values), trial.task.parameters), label=label, group="values")
            hold_other(trial, posed.label, case, values, earlier)


def own_last_bits(trial: Trial, posed: PosedDraws, earlier: list[list[Tensor]]) -> None:
    """The task's numbers, off by so little that a lower precision rounds all of them to one side."""
    for number, bits in enumerate(LOST_BITS):
        values = _own_changed(posed, number, rounded_down(Draws(posed.seed + number), bits), trial.task.parameters)
        if values is not None:
            hold_taken(trial, values, f"{posed.label}, their last bits rounded to one side", earlier)


def _own_changed(
    posed: PosedDraws, number: int, change: Callable[[Tensor, Tensor], Tensor], names: Collection[str]
) -> Values | None:
    """Return a call of the task with its numbers changed in some arguments, choices aside; None where nothing changes."""
    old = posed.values(number)
    names = frozenset(names) - posed.constant
    is_changed = {name: name in names and not is_choice(one) for name, one in old.items()}
    values = {name: changed(one, one, change) if is_changed[name] else one for name, one in old.items()}
    values = with_structure(values, old, posed.structures)
    return values if any(values[name] is not old[name] for name in old) else None
