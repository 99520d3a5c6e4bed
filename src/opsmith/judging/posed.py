"""Judges a candidate as the task poses it: its own shapes and types, with values that nobody knows before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opsmith.judging.cell import Cell
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge, Part
from opsmith.judging.task import Task
from opsmith.subject.examples import as_case
from opsmith.subject.oracle import compare, expect
from opsmith.subject.subject import Subject

__all__ = ["judge_as_posed"]


def judge_as_posed(task: Task, cell: Cell, seed: int) -> Part:
    """Return the verdict for the task's own calls."""
    subject = Subject(
        task.name, task.reference, task.reference, task.reference, task.parameters, (cell.device,), (), task.signature
    )
    calls = 0
    for label, make in task.makers.items():
        for number in range(3):
            values: Mapping[str, Any] = make(seed + number)
            cell.load([[values[name] for name in task.parameters]], keep=number > 0)
            batch = cell.run([0])
            if batch.error is not None:
                return Part("refused", (batch.error,), calls)
            found = [one.tensor for one in cell.give([0])[0] if one is not None and one.tensor is not None]
            wrong = compare(found, expect(subject, as_case(values, task.parameters), values))
            calls += 1
            if wrong is not None:
                return Part("refused", (Charge(Refusal.WRONG_VALUES, str(wrong), label),), calls)
    return Part("accepted", (), calls)
