"""Finds the name of what is wrong: calls the candidate again and looks at what its results follow.

A wrong result alone does not tell a cache from a bug. What is tried here has one outcome for each cause.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from opsmith.checker.bits import element_bytes, same_bits
from opsmith.judging.cell import CellError
from opsmith.judging.parts import InParts, parts_of
from opsmith.judging.pieces import relative_distance
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge
from opsmith.judging.structure import is_narrow
from opsmith.judging.tasks.trees import as_real
from opsmith.judging.trial import Trial, Values
from opsmith.subject.disagreement import Disagreement
from opsmith.subject.oracle import Expected

__all__ = ["are_about", "are_same", "charge_for", "charge_for_another_call", "same_numbers"]

# A result with a relative error (of norms) below this is of a lower precision, and not another function's.
_PRECISION = 0.05
# Of inputs so many times as large roundings move results further, as those of a softmax.
_NUDGED, _PRECISION_OF_NUDGED = 3.0, 0.25
# When a thread in the background has had its time.
_LATER_S = 0.1
_REPEATS = 5
# What memory is filled with before a call, in turn. Which piece of it the result gets is chance, so there are more calls
# than two, if they do not take longer than this.
_SOILS, _LEAST_SOILS, _SOILS_S = (0x11, 0x77) * 8, 4, 2.0


def charge_for(
    trial: Trial,
    values: Values,
    found: Sequence[Tensor],
    expected: Expected | InParts,
    wrong: Disagreement | Charge,
    *,
    earlier: Sequence[Sequence[Tensor]] = (),
    where: str = "",
    index: int = 0,
) -> Charge:
    """Return the charge for a wrong result; `earlier` are those of calls with other inputs before it.

    `index` is the call's number in the last batch, whose results are still there.
    """
    if isinstance(wrong, Charge):
        return Charge(wrong.refusal, wrong.message, where)
    message = str(wrong)
    if any(same_numbers(found, one) for one in earlier):
        return Charge(
            Refusal.CACHED_RESULT, f"it returns the result of an earlier call with other inputs; {message}", where
        )
    try:
        charge = _named_by_calls(trial, values, found, expected, message, where, index)
    except CellError as error:
        return Charge(error.charge.refusal, error.charge.message, where)
    # Integers have no last digits, near as other results may be.
    if charge.refusal is Refusal.LOW_PRECISION and not as_real(found[wrong.output]).is_floating_point():
        return replace(charge, refusal=Refusal.WRONG_VALUES)
    return charge


def charge_for_another_call(
    trial: Trial,
    found: Sequence[Tensor],
    last: Values,
    wrong: Disagreement,
    where: str,
    *,
    values: Values | None = None,
) -> Charge:
    """Return the charge for a result that is another call's of its batch; `last` are the inputs of the last one.

    A later call has written to it where it is the last one's, or, if they are given, where `values` by themselves have a
    right result. A timed call has had that before.
    """
    if _is_right(trial, found, last) or (values is not None and _is_right_alone(trial, values)):
        return Charge(Refusal.OVERWRITTEN_RESULT, f"later calls write to an earlier result; {wrong}", where)
    return Charge(Refusal.CACHED_RESULT, f"it returns another call's result; {wrong}", where)


def _is_right(trial: Trial, found: Sequence[Tensor], values: Values) -> bool:
    return trial.wrong(list(found), trial.expected(values)) is None


def _is_right_alone(trial: Trial, values: Values) -> bool:
    try:
        return _is_right(trial, trial.call(values), values)
    except CellError:
        return False


def _named_by_calls(
    trial: Trial,
    values: Values,
    found: Sequence[Tensor],
    expected: Expected | InParts,
    message: str,
    where: str,
    index: int,
) -> Charge:
    time.sleep(_LATER_S)
    if trial.wrong(trial.plain(trial.cell.give([index])[0]), expected) is None:
        return Charge(Refusal.WORKS_AFTER_THE_END, f"its result is right some time after the call; {message}", where)
    if _follows_memory(trial, values):
        return Charge(Refusal.UNWRITTEN_OUTPUT, f"elements have what the memory had before; {message}", where)
    if any(trial.wrong(trial.call(values), expected) is None for _ in range(_REPEATS)):
        return Charge(Refusal.NOT_DETERMINISTIC, f"the same call is right at another time; {message}", where)
    if trial.wrong(trial.call(values, margin=0), expected) is None:
        return Charge(Refusal.READS_OUTSIDE, f"the result depends on memory around its inputs; {message}", where)
    if _is_near_to(found, expected) and _is_near_elsewhere(trial, values):
        return Charge(Refusal.LOW_PRECISION, message, where)
    return Charge(Refusal.WRONG_VALUES, message, where)


def _follows_memory(trial: Trial, values: Values) -> bool:
    """Whether results have bytes that memory was filled with before a call, and change with these."""
    until_s = time.monotonic() + _SOILS_S
    is_shown, first = False, None
    for number, byte in enumerate(_SOILS):
        if number >= _LEAST_SOILS and time.monotonic() > until_s:
            break
        found = trial.call(values, soil=byte)
        first = found if first is None else first
        is_shown = is_shown or _shows(found, byte)
        if is_shown and not are_same(first, found):
            return True
    return False


def same_numbers(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    """Whether results are the same to the bit, NaN included, and have numbers that are not all alike."""
    return any(a.numel() > 1 and bool((a != a.reshape(-1)[0]).any()) for a in one) and are_same(one, other)


def are_same(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    """Whether results are the same to the bit, NaN included."""
    return len(one) == len(other) and all(same_bits(a, b) for a, b in zip(one, other, strict=True))


def _shows(found: Sequence[Tensor], byte: int) -> bool:
    """Whether elements consist of one byte alone."""
    return any(bool((element_bytes(tensor) == byte).all(dim=1).any()) for tensor in found)


def is_near(found: Sequence[Tensor], values: Sequence[Tensor], most: float = _PRECISION) -> bool:
    """Whether results are right but for a part of their norms, their last digits; False where no result has digits."""
    near = False
    for one, value in zip(map(as_real, found), map(as_real, values), strict=True):
        if not one.is_floating_point():
            continue
        if relative_distance(one, value) > most:
            return False
        near = True
    return near


def are_about(found: Sequence[Tensor], usual: Sequence[Tensor]) -> bool:
    """Whether results are the reference's, at a glance: but for some percent of their norm, and in their integers."""
    if len(found) != len(usual) or any(a.shape != b.shape for a, b in zip(found, usual, strict=True)):
        return False
    pairs = [(as_real(a), as_real(b.to(a.device))) for a, b in zip(found, usual, strict=True)]
    if not all(torch.equal(a, b) for a, b in pairs if not a.is_floating_point()):
        return False
    return is_near(found, usual) or not any(a.is_floating_point() for a, _ in pairs)


def _is_near_to(found: Sequence[Tensor], expected: Expected | InParts, most: float = _PRECISION) -> bool:
    return all(
        is_near([one[rows] if one.dim() else one for one in found], part.values, most)
        for rows, part in parts_of(expected)
    )


def _is_near_elsewhere(trial: Trial, values: Values) -> bool:
    """Whether results are near for inputs of another scale too: what only looks like the function is not."""
    moved = {name: _NUDGED * value + 1 if _is_floating(value) else value for name, value in values.items()}
    try:
        expected = trial.expected(moved)
    except Exception:
        return True
    return _is_near_to(trial.call(moved), expected, _PRECISION_OF_NUDGED)


def _is_floating(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and not is_narrow(value)
