"""Makes what stands for a judgement that there is none of: the judge failed, or the candidate cannot be read."""

from __future__ import annotations

from pathlib import Path
from traceback import extract_tb

from opsmith._printable import printable
from opsmith.benchmark.machine import this_machine
from opsmith.judging.candidate import Candidate
from opsmith.judging.options import JudgeOptions
from opsmith.judging.preparing import device_of
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge, Judgement, Part
from opsmith.judging.task import Task

__all__ = ["failed_judgement", "unread_judgement"]

# Of the reason, in characters: it may quote what a candidate sent.
_LONGEST = 400


def failed_judgement(task: Task, candidate: Candidate, options: JudgeOptions, error: Exception) -> Judgement:
    """Return a judgement in which nothing is judged, whose `failure` is the error and where it was raised."""
    places = extract_tb(error.__traceback__)
    at = f" ({Path(places[-1].filename).name}, line {places[-1].lineno})" if places else ""
    failure = printable(f"{type(error).__name__}: {error}"[:_LONGEST]) + at
    device = device_of(options)
    part = Part("not judged", note=f"the judge failed: {failure}")
    machine = this_machine(device).name
    return Judgement(task.name, candidate.name, device, part, part, machine=machine, failure=failure)


def unread_judgement(task: Task, path: Path, options: JudgeOptions, error: Exception) -> Judgement:
    """Return the judgement of a candidate whose files are not read, with the reason."""
    device = device_of(options)
    posed = Part("refused", (Charge(Refusal.NOT_LOADED, printable(str(error)[:_LONGEST])),))
    operator = Part("not judged", note="it is not read")
    name = path.stem if path.is_file() else path.name
    return Judgement(task.name, name, device, posed, operator, machine=this_machine(device).name)
