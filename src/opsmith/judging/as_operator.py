"""Judges a candidate as an operator: by those properties of `opsmith check` that can be asked from outside of its process.

The task's shapes say nothing of another one's. Honest kernels that are made for one shape fail here and say so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from opsmith.checker.outcome import Outcome, not_run_for
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.gradients import NOT_REGISTERED
from opsmith.checker.properties.table import Property, chosen
from opsmith.judging.cell import CellError
from opsmith.judging.diagnosis import are_same
from opsmith.judging.operator_subject import task_as_operator
from opsmith.judging.own_memory import Views, charge_against, views_of_reference
from opsmith.judging.posed_kinds import charge_for_kinds
from opsmith.judging.refusals import Refusal
from opsmith.judging.remote import CandidateEnded, CandidateRaisedError, remote_function
from opsmith.judging.result import Charge, Part
from opsmith.judging.trial import Trial
from opsmith.subject.case import Case
from opsmith.subject.disagreement import compare
from opsmith.subject.oracle import expect
from opsmith.subject.subject import Subject

__all__ = ["judge_as_operator"]

# What a property of `check` is called where it refuses; those of gradients are asked where the task trains.
_VALUES: Mapping[str, Refusal] = {
    # It is right at the task's sizes already.
    "value": Refusal.WRONG_AT_OTHER_SIZES,
    "magnitude": Refusal.WRONG_FOR_OTHER_VALUES,
    "special values": Refusal.WRONG_FOR_OTHER_VALUES,
    "sizes": Refusal.WRONG_AT_OTHER_SIZES,
    "empty": Refusal.WRONG_AT_OTHER_SIZES,
    "strides": Refusal.WRONG_FOR_OTHER_LAYOUTS,
    "arguments": Refusal.WRONG_VALUES,
}
_GRADIENTS: Mapping[str, Refusal] = {"gradient": Refusal.WRONG_GRADIENT}
_OF_SIZES = ("sizes", "empty")
_REPEATS = 4
# The calls of a fast candidate take a half of a property's time: the reference runs a dozen times beside each, and an order
# to another process takes a millisecond. From this part on the candidate decides how many inputs there is time for.
_SLOW = 0.8
# What is asked beside the properties of `check`.
_KINDS = "special and extreme values as posed"


@dataclass(frozen=True)
class _Asked:
    """What came of one property in one element type, and which part of its time the candidate's own calls took."""

    item: Property
    dtype: str
    outcome: Outcome
    own_part: float

    @property
    def is_cut_short(self) -> bool:
        """Whether inputs were left out because the candidate is slow: what it does for those is not known."""
        return self.outcome.left_out > 0 and self.own_part > _SLOW


def judge_as_operator(trial: Trial, seed: int) -> Part:
    """Return the verdict for everything that a user of an operator would try."""
    call = remote_function(trial)
    if (described := task_as_operator(trial, call, seed)) is None:
        return Part("not judged", note="it has float8, of which no other numbers than the task's own are made")
    subject = described.subject
    names = {**_VALUES, **(_GRADIENTS if trial.task.trains else {})}
    if described.is_complex:  # what NaN and infinities become depends on the formula
        del names["special values"]
    if described.why_posed:
        names = {name: refusal for name, refusal in names.items() if name not in _OF_SIZES}
    asked: list[_Asked] = []
    charges: list[Charge] = []
    told: list[str] = [""]

    def tell(doing: Any) -> None:
        told[0] = doing.label if isinstance(doing, Case) else told[0]

    kinds = None
    left = [(item, dtypes) for item in chosen(tuple(names)) for dtypes in subject.dtypes]
    weights = sum(item.weight for item, _ in left)
    try:
        kinds = charge_for_kinds(trial, seed, tell)
        begun_s = time.monotonic()
        for item, dtypes in left:
            share_s = (trial.until_s - begun_s) * item.weight / weights
            asked.append(_ask(subject, item, dtypes, tell, share_s, trial, call))
        repeated = _repeats(subject)
    except (CandidateEnded, CellError) as ended:
        charges.append(replace(ended.charge, where=told[0]))
        repeated = None
    charges += [kinds] if kinds is not None else []
    charges += [_charge(one, names[one.item.name]) for one in asked if one.outcome.state == "failed"]
    charges += [
        Charge(names[one.item.name], one.outcome.note, f"{one.item.name}, {one.dtype}".strip(", "))
        for one in asked
        if _refuses_gradient(one)
    ]
    charges += call.charges.values()
    charges += [repeated] if repeated is not None else []
    if trial.shared and (right := views_of_reference(trial, next(iter(trial.task.makers.values()))(seed))) is not None:
        aliased = charge_against(Views(frozenset(trial.shared), frozenset()), right)
        charges += [aliased] if aliased is not None else []
    states = {_KINDS: "right" if kinds is None else "wrong"} if asked else {}
    states |= {f"{one.item.name} {one.dtype}".strip(): _state(one) for one in asked}
    states |= {name: f"not asked: {described.why_posed}" for name in _OF_SIZES if described.why_posed}
    return _verdict(charges, asked, states, trial.calls)


def _verdict(charges: Sequence[Charge], asked: Sequence[_Asked], states: Mapping[str, str], calls: int) -> Part:
    """Return what comes of all that was asked, beside so many calls of no property."""
    of_properties = sum(one.outcome.inputs for one in asked)
    calls += of_properties
    if charges:
        return Part("refused", tuple(charges), calls, states)
    if failed := [one.outcome.note for one in asked if one.outcome.is_error]:
        return Part("not judged", (), calls, states, failed[0])
    if not of_properties:
        return Part("not judged", (), 0, states, "nothing could be compared")
    if slow := dict.fromkeys(one.item.name for one in asked if one.is_cut_short):
        note = f"too slow: its own calls took most of the time, and inputs were left out ({', '.join(slow)})"
        return Part("not judged", (), calls, states, note)
    return Part("accepted", (), calls, states)


def _ask(
    subject: Subject,
    item: Property,
    dtypes: Mapping[str, str],
    tell: Callable[[Any], None],
    share_s: float,
    trial: Trial,
    call: remote_function,
) -> _Asked:
    begun_s, own_s = time.monotonic(), call.seconds
    context = Context(
        subject,
        trial.cell.device,
        dtypes,
        tell,
        seconds=share_s,
        until_s=max(trial.until_s, time.monotonic() + share_s),
    )
    try:
        outcome = item.run(context)
    except Exception as error:
        # A defect of the judge, and not of the candidate.
        outcome = not_run_for(error)
    took_s = max(time.monotonic() - begun_s, 1e-9)
    return _Asked(item, context.dtype, outcome, (call.seconds - own_s) / took_s)


def _charge(one: _Asked, refusal: Refusal) -> Charge:
    finding = one.outcome.findings[0]
    return Charge(refusal, finding.message, f"{one.item.name}{f', {one.dtype}' if one.dtype else ''}")


def _refuses_gradient(one: _Asked) -> bool:
    """Whether a candidate says that it has no gradient, which `check` believes: where a task trains it has to have one."""
    outcome = one.outcome
    return one.item.name in _GRADIENTS and outcome.state == "not run" and outcome.note.startswith(NOT_REGISTERED)


def _state(one: _Asked) -> str:
    outcome = one.outcome
    if outcome.state == "not run":
        return f"not asked: {outcome.note}"
    if outcome.state == "failed":
        return "wrong"
    return f"cut short: no time for {outcome.left_out} inputs" if one.is_cut_short else "right"


def _repeats(subject: Subject) -> Charge | None:
    """Return the charge for calls with the same arguments of which one is right and another is not."""
    case = subject.suite.plain(subject.dtypes[0]) if subject.signature is not None else subject.examples[0]
    values = case.build(subject.devices[0])
    try:
        with torch.no_grad():
            first, *others = (subject.kernel(*subject.arguments(values)) for _ in range(_REPEATS))
    except CandidateRaisedError:
        return None
    if not (differing := [one for one in others if not are_same(first, one)]):
        return None
    # A sum may be added in any order, as by atomic operations: its last bits are no defect.
    expected = expect(subject, case, values, is_lenient=True)
    wrong = next((found for one in (first, *differing) if (found := compare(list(one), expected)) is not None), None)
    if wrong is None:
        return None
    text = f"{_REPEATS} calls with the same arguments differ; {wrong}"
    return Charge(Refusal.NOT_DETERMINISTIC, text, case.label)
