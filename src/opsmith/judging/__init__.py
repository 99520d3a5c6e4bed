"""Judges kernels that others wrote, people or machines, whom it does not trust; `opsmith.judge` is the entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opsmith._lazy import lazy_names

if TYPE_CHECKING:
    from opsmith.judging.api import judge
    from opsmith.judging.candidate import Candidate, Entry
    from opsmith.judging.refusals import Refusal
    from opsmith.judging.result import Charge, Judgement, Part, Speed
    from opsmith.judging.task import Task, Tolerance
    from opsmith.judging.task_files import load_task

__all__ = [
    "Candidate",
    "Charge",
    "Entry",
    "Judgement",
    "Part",
    "Refusal",
    "Speed",
    "Task",
    "Tolerance",
    "judge",
    "load_task",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Candidate": "candidate",
        "Charge": "result",
        "Entry": "candidate",
        "Judgement": "result",
        "Part": "result",
        "Refusal": "refusals",
        "Speed": "result",
        "Task": "task",
        "Tolerance": "task",
        "judge": "api",
        "load_task": "task_files",
    },
)
