"""Defines the outcome of a property: passed, failed with findings, or not run and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from opsmith.subject.case import Case
from opsmith.subject.derivatives import GradientRequest

__all__ = [
    "Expecting",
    "Finding",
    "Found",
    "Outcome",
    "State",
    "failed",
    "not_run",
    "not_run_for",
    "out_of_time",
    "passed",
]

_ERROR = "the check failed with "
_OUT_OF_TIME = "no time left"
State = Literal["passed", "failed", "not run"]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: what was seen, on which input, and what the cause may be.

    `case` is the input, as small as it could be made, and `first` the one that failed first; `snippet` shows it as a
    program, in which the `earlier` calls come before it. `seen_as` is the property that saw it, where another reports it,
    and `request` says which gradients are wrong.
    """

    message: str
    case: Case | None = None
    hint: str = ""
    snippet: str = ""
    first: Case | None = field(default=None, compare=False)
    earlier: tuple[Case, ...] = ()
    seen_as: str = ""
    request: GradientRequest | None = None


@dataclass(frozen=True)
class Outcome:
    """The result of one property on one device in one element type.

    `inputs` counts the calls that were compared, `refused` those that the reference itself would not take, and
    `left_out` those for which there was no time. `note` says what a reader should know beside it; for `not run` it is
    the reason.
    """

    state: State
    findings: tuple[Finding, ...] = ()
    inputs: int = 0
    refused: int = 0
    note: str = ""
    left_out: int = 0
    seconds: float = field(default=0.0, compare=False)

    @property
    def is_error(self) -> bool:
        """Whether the check itself has failed, so that it says nothing of the operator: a defect of opsmith's."""
        return self.state == "not run" and self.note.startswith(_ERROR)

    @property
    def is_out_of_time(self) -> bool:
        """Whether the limit of time left nothing for this property."""
        return self.state == "not run" and self.note == _OUT_OF_TIME


@dataclass(frozen=True)
class Found:
    """What a property reports before it makes a finding's input smaller: its outcome, if that ends the process."""

    outcome: Outcome


@dataclass(frozen=True)
class Expecting:
    """What a property reports before it asks the reference about a case: what ends the process then is not the kernel's."""

    case: Case


def passed(inputs: int = 1, *, refused: int = 0, left_out: int = 0, note: str = "") -> Outcome:
    """Return the outcome of a property that holds for everything tried."""
    return Outcome("passed", inputs=inputs, refused=refused, left_out=left_out, note=note)


def failed(*findings: Finding, inputs: int = 1, note: str = "") -> Outcome:
    """Return the outcome of a property that does not hold."""
    return Outcome("failed", findings, inputs=inputs, note=note)


def not_run(reason: str) -> Outcome:
    """Return the outcome of a property that says nothing here, and why."""
    return Outcome("not run", note=reason)


def out_of_time() -> Outcome:
    """Return the outcome of a property that a check's limit of time left nothing for."""
    return not_run(_OUT_OF_TIME)


def not_run_for(error: Exception) -> Outcome:
    """Return the outcome of a property whose check raised what it should not have."""
    return not_run(f"{_ERROR}{type(error).__name__}: {str(error)[:500]}")
