"""Judges a candidate as the task poses it: its own shapes and types, with values that nobody knows before.

Contents change behind the same tensors, the same contents move to other memory, several calls are made before the first
result is looked at, and numbers of other kinds come in the same shapes.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from torch import Tensor

from opsmith.judging.cell import CellError
from opsmith.judging.diagnosis import are_same, charge_for, charge_for_another_call, same_numbers
from opsmith.judging.holding import Refused, hold, hold_taken
from opsmith.judging.other_numbers import changed, mixed
from opsmith.judging.own_memory import charge_for_memory
from opsmith.judging.patience import OverTotal
from opsmith.judging.posed_numbers import (
    PosedDraws,
    other_kinds,
    other_kinds_in_places,
    own_last_bits,
    own_made_small,
    own_with_large_ends,
)
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge, Part
from opsmith.judging.scaled import bytes_of
from opsmith.judging.structure import is_choice
from opsmith.judging.structured import with_structure
from opsmith.judging.trial import Trial, Values
from opsmith.subject.draws import Draws

__all__ = ["judge_as_posed"]

# Calls in a row without a look between, as far as their inputs take no more memory than this.
_IN_A_ROW, _ROW_BYTES = 16, 256 << 20
# Rows of calls, the last one after many more, if these take no longer: what is right for some calls and wrong later.
_ROWS, _MORE_CALLS, _MORE_S = 3, 256, 2.0
# How many weights change by themselves, of all of a module.
_WEIGHTS = 3
# How often a call is repeated to learn what its result depends on.
_TIMES = 3
# What may as well be of a candidate that becomes wrong after a while.
_ONLY_WRONG = (Refusal.WRONG_VALUES, Refusal.LOW_PRECISION, Refusal.WRONG_FOR_OTHER_VALUES)


def judge_as_posed(trial: Trial, seed: int) -> Part:
    """Return the verdict for the task's own calls. The first reason to refuse ends it."""
    states: dict[str, str] = {}
    steps = (
        ("values", _plain),
        ("same memory, other contents", _other_contents),
        ("other contents in places", _in_places),
        ("other memory, same contents", _other_memory),
        ("calls in a row", _in_a_row),
        ("results that their caller changes", _changed_results),
        ("other kinds of numbers", other_kinds),
        ("other kinds in places", other_kinds_in_places),
        ("own numbers, some of them small", own_made_small),
        ("own numbers, large ends", own_with_large_ends),
        ("own numbers, their last bits", own_last_bits),
    )
    label = ""
    try:
        for index, (label, make) in enumerate(trial.task.makers.items()):
            posed = PosedDraws(label, make, seed + 1009 * index, trial.task.lifted)
            earlier: list[list[Tensor]] = []
            for name, step in steps:
                # Of the first call all is asked, however long it takes: a verdict says the same on a busy machine. Other
                # kinds of numbers are asked of each: who takes long for the first must not be spared them later.
                if index and not trial.has_time and step in (_in_places, _in_a_row):
                    states[name] = "no time left"
                    continue
                states[name] = "refused"
                step(trial, posed, earlier)
                states[name] = "right"
            if (charge := charge_for_memory(trial, posed.values(0))) is not None:
                raise Refused(replace(charge, where=label))
    except Refused as refused:
        charge = refused.charge
        if charge.refusal in _ONLY_WRONG and states["values"] == "right" and _is_wrong_by_now(trial, posed.values(0)):
            charge = replace(charge, refusal=Refusal.DRIFTS)
        return Part("refused", (charge,), trial.calls, states)
    except CellError as error:
        return Part("refused", (replace(error.charge, where=error.charge.where or label),), trial.calls, states)
    return Part("accepted", (), trial.calls, states)


def _is_wrong_by_now(trial: Trial, values: Values) -> bool:
    """Whether a call is wrong that was right; whatever else becomes of it says nothing."""
    try:
        return trial.wrong(trial.call(values), trial.expected(values)) is not None
    except (CellError, OverTotal):
        return False


def _plain(trial: Trial, posed: PosedDraws, earlier: list[list[Tensor]]) -> None:
    """The first calls; what is done later or elsewhere is not there when the current stream comes to the end of a call."""
    values, right = posed.values(0), None
    for is_again in (False, True):
        found, at_once = trial.batch([values], keep=is_again, is_watched=True)
        try:
            # What is right to the bit is not compared again.
            if right is None or not are_same(found, right):
                hold(trial, values, posed.label, found, earlier)
        except Refused as refused:
            is_by_chance = refused.charge.refusal is Refusal.NOT_DETERMINISTIC
            if is_by_chance and trial.cell.device == "cuda" and _reads_early(trial, values):
                text = "its result is wrong where inputs come to the current stream after the call, and right otherwise"
                raise Refused(Charge(Refusal.OTHER_STREAM, text, posed.label)) from None
            raise
        right = found
        if not are_same(at_once, right) and trial.wrong(at_once, trial.expected(values)) is not None:
            is_gpu = trial.cell.device == "cuda"
            where = "the current stream" if is_gpu else "the call"
            name = Refusal.OTHER_STREAM if is_gpu else Refusal.WORKS_AFTER_THE_END
            raise Refused(Charge(name, f"its result is not there at the end of {where}, and right later", posed.label))


def _reads_early(trial: Trial, values: Values) -> bool:
    """Whether a GPU's results are wrong whenever inputs arrive late, and right whenever they are there."""
    expected = trial.expected(values)
    late = [trial.batch([values], is_watched=True)[0] for _ in range(_TIMES)]
    there = [trial.call(values) for _ in range(_TIMES)]
    return all(trial.wrong(found, expected) is not None for found in late) and all(
        trial.wrong(found, expected) is None for found in there
    )


def _other_contents(trial: Trial, posed: PosedDraws, earlier: list[list[Tensor]]) -> None:
    """New contents in the same tensors: what is kept by their identity, version or pointer is old.

    Then in one weight alone: who packs all again when the first of them has changed keeps the others.
    """
    for number in (1, 2):
        values = posed.values(number)
        hold(trial, values, posed.label, trial.call(values, keep=True), earlier)
    if len(weights := list(trial.task.lifted)) < 2:
        return
    others = posed.values(3)
    for name in secrets.SystemRandom().sample(weights, min(_WEIGHTS, len(weights))):
        values = {**values, name: others[name]}
        hold(trial, values, posed.label, trial.call(values, keep=True), earlier)


def _in_places(trial: Trial, posed: PosedDraws, earlier: list[list[Tensor]]) -> None:
    """New contents in some places of the same tensors, the first and the last not among them.

    What is kept by some of the numbers, or by a sum of them, is that of the call before.
    """
    old, new = posed.values(2), posed.values(3)
    draws = Draws(posed.seed)
    values = {
        name: value if is_choice(value) else changed(value, new[name], mixed(draws)) for name, value in old.items()
    }
    values = with_structure(values, old, posed.structures)
    if any(values[name] is not old[name] for name in values):
        hold(trial, old, posed.label, trial.call(old, keep=True), earlier)
        hold_taken(trial, values, posed.label, earlier)  # the reference may state what two draws mixed do not keep


def _other_memory(trial: Trial, posed: PosedDraws, earlier: list[list[Tensor]]) -> None:
    """The same contents elsewhere, and others where they were: what has kept a pointer reads those."""
    old, values = posed.values(3), posed.values(2)
    (found,) = trial.batch([old, values], [1], keep=False)
    expected = trial.expected(values)
    if (wrong := trial.wrong(found, expected)) is None:
        return
    if not isinstance(wrong, Charge) and trial.wrong(found, trial.expected(old)) is None:
        text = f"it reads the memory of an earlier call's inputs; {wrong}"
        raise Refused(Charge(Refusal.STALE_POINTERS, text, posed.label))
    raise Refused(charge_for(trial, values, found, expected, wrong, earlier=earlier, where=posed.label))


def _in_a_row(trial: Trial, posed: PosedDraws, earlier: list[list[Tensor]]) -> None:
    """Several calls before the first result is looked at, more than once."""
    size = bytes_of(list(posed.values(0).values()))
    most = min(_ROW_BYTES // max(size, 1), int(trial.cell.limits.call_s / max(trial.slowest_s, 1e-6)))
    count = max(3, min(_IN_A_ROW, most))
    number = 4
    for row in range(_ROWS):
        slots = [posed.values(number + index) for index in range(count)]
        number += count
        # What drifts is seen behind the calls of the last row, of which a candidate that is slow at first is not spared.
        is_last = row == _ROWS - 1 or (row > 0 and not trial.has_time)
        if is_last:
            _many_more(trial, count, is_aside=False)
        # Results are a caller's for as long as it wants: none of those calls may write to them.
        every = trial.batch(slots, more=partial(_many_more, trial, count, is_aside=True) if is_last else None)
        looked_at = range(count) if size < 1 << 20 else (count - 1, 0, count // 2)
        for index in looked_at:
            _hold_in_row(trial, slots, every, index, posed.label)
        if is_last:
            return


def _changed_results(trial: Trial, posed: PosedDraws, earlier: list[list[Tensor]]) -> None:
    """The same call again, when its results have been written to: they are the caller's."""
    values = posed.values(0)
    right = trial.call(values)
    hold(trial, values, posed.label, right, earlier)
    trial.cell.write_over_results()
    again = trial.call(values, keep=True)
    if are_same(again, right):
        return  # what is right to the bit is not compared again
    expected = trial.expected(values)
    if (wrong := trial.wrong(again, expected)) is None:
        return
    if trial.wrong(trial.call(values, keep=True), expected) is None:
        raise Refused(
            Charge(Refusal.NOT_DETERMINISTIC, f"the same call is right at another time; {wrong}", posed.label)
        )
    text = f"it returns what it keeps: what a caller writes to a result is in the next one; {wrong}"
    raise Refused(Charge(Refusal.CACHED_RESULT, text, posed.label))


def _many_more(trial: Trial, loaded: int, *, is_aside: bool) -> None:
    """Make calls with what is loaded, in any order, until that has taken long, whatever the first ones took."""
    until_s = time.monotonic() + _MORE_S
    for _ in range(0, _MORE_CALLS, loaded):
        trial.run([secrets.randbelow(loaded) for _ in range(loaded)], is_lead_in=not is_aside, is_aside=is_aside)
        if time.monotonic() > until_s:
            return


def _hold_in_row(trial: Trial, slots: Sequence[Values], every: Sequence[list[Tensor]], index: int, label: str) -> None:
    expected = trial.expected(slots[index])
    if (wrong := trial.wrong(every[index], expected)) is None:
        return
    where = f"{label}, call {index + 1} of {len(slots)} in a row"
    if isinstance(wrong, Charge):
        raise Refused(charge_for(trial, slots[index], every[index], expected, wrong, where=where))
    found, others = every[index], [number for number in range(len(every)) if number != index]
    # It may be of a call whose own result has been written to as well.
    if any(same_numbers(found, every[number]) for number in others) or any(
        trial.wrong(found, trial.expected(slots[number])) is None for number in others
    ):
        raise Refused(charge_for_another_call(trial, found, slots[-1], wrong, where, values=slots[index]))
    raise Refused(charge_for(trial, slots[index], found, expected, wrong, where=where, index=index))
