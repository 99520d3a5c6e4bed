"""Asks for special and extreme numbers, and for layouts, in the task's own shapes: a path for such a shape is no other's.

The properties of `opsmith check` ask for more kinds, in sizes of their own, and in the task's where it is small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from opsmith.judging.cell import CellError
from opsmith.judging.complex_pairs import has_complex, places_of_complex
from opsmith.judging.other_numbers import cases_of_kinds, values_of
from opsmith.judging.parts import parts_of
from opsmith.judging.refusals import Refusal
from opsmith.judging.remote import CandidateEnded
from opsmith.judging.result import Charge
from opsmith.judging.scaled import scaled
from opsmith.judging.trial import Trial, Values
from opsmith.subject.blame import is_of_reference
from opsmith.subject.case import Case
from opsmith.subject.disagreement import Disagreement
from opsmith.subject.examples import as_case
from opsmith.subject.values import ROWS_OF_VALUES, SPECIAL_VALUES

__all__ = ["charge_for_kinds"]

_KINDS = ("special", "nan", "rows", "steep", "huge")
_LAYOUTS = ("transposed", "every second")
# Rows of special values are filled one after another.
_MOST_ROWS = 1 << 13
# Numbers near the largest of their type, and how much smaller they are where an algorithm of one pass has to be right.
_NEAR_OVERFLOW, _FAR_ENOUGH = "huge", 2.0**-8


def charge_for_kinds(trial: Trial, seed: int, tell: Callable[[Case], None]) -> Charge | None:
    """Return the first charge against a candidate that is right for the task's own numbers.

    All kinds are asked of the first call that the task poses, of others while there is time. Raises CandidateEnded where
    the candidate's process ends; `tell` gets each case before.
    """
    for index, (label, make) in enumerate(trial.task.makers.items()):
        # Ordinary numbers show which rows can be compared on their own; what is wrong for them is said elsewhere.
        values = make(seed + index)
        if _wrong(trial, values) is not None:
            return None
        for case in _cases(trial, values, seed + index):
            if index and not trial.has_time:
                return None
            tell(case)
            if wrong := _wrong_for_kind(trial, values, case):
                other = Refusal.WRONG_FOR_OTHER_LAYOUTS if case.group == "layouts" else Refusal.WRONG_FOR_OTHER_VALUES
                return Charge(other, wrong, f"{label}, {case.label}")
    return None


def _cases(trial: Trial, values: Values, seed: int) -> Iterator[Case]:
    """Yield a call for each kind; of several tensors the first alone has rows of special values.

    What NaN and infinities become in complex numbers depends on the formula: (a + ib) c is not a c + ib c for them.
    """
    is_complex = trial.complex_outputs or has_complex(list(map(places_of_complex, values.values())))
    if not is_complex:
        own = as_case(values, trial.task.parameters)
        for layout in _LAYOUTS:
            yield replace(own.changed(layout=layout), label=f"every tensor {layout}", group="layouts", base=own)
    kinds = [kind for kind in _KINDS if not is_complex or kind not in SPECIAL_VALUES]
    for case in cases_of_kinds(trial.task, values, kinds, seed):
        tensors = case.tensors()
        rows = {name for name, one in tensors.items() if one.values in ROWS_OF_VALUES}
        if not rows:
            yield case
            continue
        first = next(name for name in tensors if name in rows)
        if first in case.arguments and math.prod(tensors[first].shape[:-1]) <= _MOST_ROWS:
            assert case.base is not None
            yield replace(case, arguments={**case.base.arguments, first: case.arguments[first]})


def _wrong_for_kind(trial: Trial, like: Values, case: Case) -> str:
    """Return how results differ from the reference's, or what is raised; "" where they are right."""
    values = values_of(case, like, trial.cell.device)
    try:
        wrong = _wrong(trial, values, case)
    except CellError as error:
        if not trial.cell.is_alive:
            raise CandidateEnded(error.charge) from None
        return error.charge.message
    if isinstance(wrong, Disagreement) and _may_overflow(trial, values, case, wrong):
        return ""
    return "" if wrong is None else wrong.message if isinstance(wrong, Charge) else str(wrong)


def _wrong(trial: Trial, values: Values, case: Case | None = None) -> Disagreement | Charge | None:
    """Return how results differ from the reference's, which may refuse the numbers."""
    try:
        expected = trial.expected(values, case)
    except Exception as error:
        if is_of_reference(error):
            return None
        raise
    return trial.wrong(trial.call(values), expected)


def _may_overflow(trial: Trial, values: Values, case: Case, wrong: Disagreement) -> bool:
    """Whether numbers are near the largest of their type, and the candidate is right for smaller ones.

    A sum overflows or not by its order. Half precision does not excuse that, since its sums belong in float32.
    """
    if not any(one.values == _NEAR_OVERFLOW and one.dtype != "float16" for one in case.tensors().values()):
        return False
    _, first = next(parts_of(trial.expected(values, case)))
    if first.is_pointwise(wrong) and wrong.kind == "value":
        return False
    smaller: dict[str, Any] = {name: scaled(value, _FAR_ENOUGH) for name, value in values.items()}
    return _wrong(trial, smaller) is None
