"""Holds results against the reference's, and raises the verdict where they are wrong."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from opsmith.judging.diagnosis import charge_for
from opsmith.judging.domains import has_nan, leaves_domain
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge
from opsmith.judging.scaled import bytes_of
from opsmith.judging.tasks.trees import as_real
from opsmith.judging.trial import Trial, Values
from opsmith.subject.case import Case
from opsmith.subject.disagreement import Disagreement
from opsmith.subject.oracle import Expected

__all__ = ["Refused", "hold", "hold_other", "hold_taken"]

# Results of calls that later ones are held against: the first, the last, and those between while they are small.
_FEWEST_EARLIER, _EARLIER_BYTES = 2, 1 << 30
# Where a recurrence has come to such numbers another form of it meets infinities.
_EXPLODED = 2.0**63


class Refused(Exception):  # noqa: N818 -- it carries a verdict
    """A candidate is refused, for `charge`."""

    def __init__(self, charge: Charge) -> None:
        super().__init__(str(charge))
        self.charge = charge


def hold(trial: Trial, values: Values, where: str, found: list[Tensor], earlier: list[list[Tensor]]) -> None:
    """Raise Refused if results are wrong; afterwards they are among the earlier ones."""
    expected = trial.expected(values)
    if (wrong := trial.wrong(found, expected)) is not None:
        raise Refused(charge_for(trial, values, found, expected, wrong, earlier=earlier, where=where))
    earlier.append(found)
    while len(earlier) > _FEWEST_EARLIER and sum(map(bytes_of, earlier)) > _EARLIER_BYTES:
        del earlier[1]


def hold_taken(
    trial: Trial,
    values: Values,
    where: str,
    earlier: list[list[Tensor]],
    case: Case | None = None,
    *,
    has_other_signs: bool = False,
) -> bool:
    """Raise Refused if results are wrong for numbers that the reference takes; others do not count.

    Nor does what the reference makes NaN of, of finite numbers of another kind, a `case`: the task has none of these. Nor do
    integers that it makes by way of NaN, or what is not finite beside numbers that explode. Where numbers have signs that
    the task's own have not (`has_other_signs`), nothing counts beside NaN, and no integer: a sum of chances has an order.
    Returns whether all counted.
    """
    try:
        expected = trial.expected(values, case)
    except Exception:
        return False
    found, is_inside = trial.call(values, keep=True), True
    if case is not None and isinstance(expected, Expected):
        if has_other_signs and any(map(has_nan, expected.values)):
            return False
        counted, is_inside = _counted(found, expected)
        if counted is None:
            return False
        found = counted
    if (wrong := trial.wrong(found, expected)) is not None:
        is_discrete = isinstance(wrong, Disagreement) and not as_real(found[wrong.output]).is_floating_point()
        if case is not None and is_discrete and (has_other_signs or leaves_domain(trial, values)):
            return False
        raise Refused(charge_for(trial, values, found, expected, wrong, earlier=earlier, where=where))
    return is_inside


def _counted(found: list[Tensor], expected: Expected) -> tuple[list[Tensor] | None, bool]:
    """Return results with the reference's where they do not count, and whether all do; None where there are none to take."""
    is_undefined = any(map(has_nan, expected.values))
    explodes = any(map(_explodes, expected.values))
    if not is_undefined and not explodes:
        return found, True
    if [one.shape for one in found] != [one.shape for one in expected.values]:
        return (None, False) if is_undefined else (found, True)
    try:
        pointwise = expected.limits.pointwise
    except Exception:
        return None, False  # the reference does not take what is beside those numbers
    if is_undefined and expected.own is None:
        return None, False
    counted = []
    for one, value, own, alone in zip(found, expected.values, expected.own or found, pointwise, strict=True):
        counted.append(_without_overflow(_without_nan(one, value, own, alone), value, alone))
    return counted, False


def _without_nan(found: Tensor, value: Tensor, own: Tensor, alone: bool) -> Tensor:
    """Return a result with NaN where the reference has one, and the reference's own where elements depend on each other."""
    if not has_nan(value):
        return found
    return found.masked_fill(value.isnan().to(found.device), torch.nan) if alone else own.to(found.device)


def _without_overflow(found: Tensor, value: Tensor, alone: bool) -> Tensor:
    """Return a result with the reference's numbers where it is not finite: an order of sums has overflowed inside."""
    if alone or not _explodes(value) or not found.is_floating_point():
        return found
    return torch.where(found.isfinite(), found, value.to(found))


def _explodes(value: Tensor) -> bool:
    """Whether squares of a result's numbers, of which there are more than one, leave float32."""
    return value.is_floating_point() and value.numel() > 1 and bool((value.abs() > _EXPLODED).any())


def hold_other(
    trial: Trial, label: str, case: Case, values: Values, earlier: list[list[Tensor]], *, has_other_signs: bool = False
) -> bool:
    """Raise Refused if results are wrong for numbers that are not the task's, in the call with this label.

    Returns whether the reference takes all of them.
    """
    try:
        return hold_taken(trial, values, f"{label}, {case.label}", earlier, case, has_other_signs=has_other_signs)
    except Refused as refused:
        charge = refused.charge
        if charge.refusal in (Refusal.WRONG_VALUES, Refusal.LOW_PRECISION):
            charge = replace(charge, refusal=Refusal.WRONG_FOR_OTHER_VALUES)
        raise Refused(charge) from None
