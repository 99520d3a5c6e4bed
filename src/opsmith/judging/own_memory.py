"""Holds results to memory of their own: a call has to write what it returns.

A view of an input, and a number that stands in many places (as `expand` returns it), leave the work to who reads them. They
are right where the reference returns such a view as well.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opsmith.judging.answers import Batch, place_in
from opsmith.judging.cell import Cell
from opsmith.judging.diagnosis import are_same
from opsmith.judging.memory import overlaps_itself
from opsmith.judging.other_memory import SpreadError
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge
from opsmith.judging.tasks.places import on_device
from opsmith.judging.tasks.trees import tensors_of
from opsmith.judging.trial import Trial, Values

__all__ = ["Views", "charge_against", "charge_for_memory", "charge_for_views", "views_in", "views_of_reference"]


@dataclass(frozen=True)
class Views:
    """Which results of a call lie in an input, of which elements share memory, and which lie in another one's."""

    shared: frozenset[int]
    overlapping: frozenset[int]
    together: frozenset[int] = frozenset()


def views_in(results: Sequence[Tensor], arguments: Sequence[Any]) -> Views:
    """Return the views among results of a call that was made here."""
    given = {one.untyped_storage().data_ptr() for one in tensors_of(arguments) if one.numel()}
    numbered = list(enumerate(results))
    return Views(
        frozenset(number for number, one in numbered if one.untyped_storage().data_ptr() in given),
        frozenset(number for number, one in numbered if overlaps_itself(one.shape, one.stride())),
        _together([one.data_ptr() for one in results], results),
    )


def views_of_reference(trial: Trial, values: Values) -> Views | None:
    """Return the views among the reference's results; None where it raises."""
    arguments = trial.arguments(on_device(values, trial.cell.device))
    try:
        with torch.no_grad():
            return views_in(tensors_of(trial.task.reference(*arguments)), arguments)
    except Exception:
        return None


def charge_for_memory(trial: Trial, values: Values) -> Charge | None:
    """Return the charge for results that are not in memory of their own, in a call that is made for it if need be.

    What its process has said is held against it. Where it can be looked at, a call shows what it has not said.
    """
    is_told = bool(trial.shared or trial.overlapping)
    if not is_told and not trial.cell.is_exact:
        return None
    if (right := views_of_reference(trial, values)) is None:
        return None
    charge = charge_against(Views(frozenset(trial.shared), frozenset(trial.overlapping)), right)
    return charge if charge is not None or not trial.cell.is_exact else _charge_by_looking(trial, values, right)


def _charge_by_looking(trial: Trial, values: Values, right: Views) -> Charge | None:
    like = trial.call(values)  # whose form may depend on the numbers
    trial.load([values])
    done = trial.run([0], is_timed=True)
    try:
        found = trial.cell.seen(done, 0, like)
        charge = None if found is None else charge_for_views(trial.cell, done, 0, found, right)
    except SpreadError:
        return None
    if charge is not None:
        return charge
    # Other places than its results' could have been told.
    given = trial.plain(trial.cell.give([0])[0])
    if found is None or not are_same(_without(found, right.shared), _without(given, right.shared)):
        return Charge(Refusal.REACHES_OUTSIDE, "its results are not where its process says that they are")
    return None


def _without(results: Sequence[Tensor], numbers: Collection[int]) -> list[Tensor]:
    return [one for number, one in enumerate(results) if number not in numbers]


def charge_for_views(cell: Cell, done: Batch, at: int, found: list[Tensor], right: Views) -> Charge | None:
    """Return the charge for results of an exact call that are views where the reference's are not.

    `found` is what lies in the process's memory, which stands still. Its inputs are overwritten, and may not be used again.
    None where nothing lies there.
    """
    cell.overwrite_inputs()
    if (again := cell.seen(done, at, found)) is None:
        return None
    places = [place_in(one) for one in done.places[at]]
    overlapping = [
        number
        for number, ((_, strides), one) in enumerate(zip(places, found, strict=True))
        if strides is not None and overlaps_itself(one.shape, strides)
    ]
    changed = [number for number, one in enumerate(found) if not are_same([one], [again[number]])]
    together = _together([at for at, _ in places], found)
    return charge_against(Views(frozenset(changed), frozenset(overlapping), together), right)


def _together(addresses: Sequence[int], results: Sequence[Tensor]) -> frozenset[int]:
    """Return the results that begin where one before them does."""
    begun: set[int] = set()
    found = set()
    for number, (at, one) in enumerate(zip(addresses, results, strict=True)):
        if one.numel() and at in begun:
            found.add(number)
        begun.add(at)
    return frozenset(found)


def charge_against(views: Views, right: Views) -> Charge | None:
    """Return the charge for results that are views where the reference's, which are `right`, are not."""
    if more := views.shared - right.shared:
        return Charge(Refusal.ALIASED_RESULT, f"output {min(more)} lies in the memory of an input")
    if more := views.overlapping - right.overlapping:
        text = f"elements of output {min(more)} share memory, and the reference writes each"
        return Charge(Refusal.OVERLAPPING_RESULT, text)
    if more := views.together - right.together:
        text = f"output {min(more)} lies in the memory of another, and the reference has one for each"
        return Charge(Refusal.OVERLAPPING_RESULT, text)
    return None
