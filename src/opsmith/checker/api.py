"""Checks operators from Python: `opsmith.check(op)`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from opsmith.checker.anew import checked_anew
from opsmith.checker.options import CheckOptions
from opsmith.checker.plans import plan_of, subject_for
from opsmith.checker.process.forks import Forks
from opsmith.checker.report import Report
from opsmith.checker.run import run_check
from opsmith.errors import CheckError
from opsmith.subject.verb import verb

__all__ = ["Reports", "check"]


class Reports(tuple[Report, ...]):
    """What the check of several operators found: a tuple of reports, and their overall result."""

    __slots__ = ()

    @property
    def ok(self) -> bool:
        """Whether nothing failed in any of them."""
        return all(report.ok for report in self)

    @property
    def failed(self) -> tuple[str, ...]:
        """What failed, as `operator: property`."""
        return tuple(f"{report.operator}: {name}" for report in self for name in report.failed)

    def raise_if_failed(self) -> None:
        """Raise CheckError with the reports of the operators in which something failed."""
        if not self.ok:
            raise CheckError("\n\n".join(str(report) for report in self if not report.ok))

    def __str__(self) -> str:
        return "\n\n".join(map(str, self))


@verb(CheckOptions, Report, Reports)
def check(operators: Sequence[Any], options: CheckOptions) -> Iterator[Report]:
    """Compare an operator with its reference, and return what was found.

    `op` is an operator of opsmith's, one of `torch.ops`, one made with `torch.library.custom_op`, or any function; all
    but the first need `reference=`, the same in plain PyTorch, and `examples=` unless the reference is annotated like a
    definition. A module stands for the operators that it declares, and a list for its items; Reports come back for
    those.

    The work is done in child processes, so that a crash is a finding. Where PyTorch lets these compute no gradient, after
    a backward in this one, a new process imports the operator and checks it. Nothing is raised for what is found; ask
    `report.ok`, or call `report.raise_if_failed()`. Raises ArgumentError if there is nothing to compare with or to call
    with, and BuildError if the operator cannot be built.
    """
    plan = plan_of(options)
    is_spoiled = not Forks.of_this_process(plan.properties).can_differentiate
    for op in operators:
        report = checked_anew(op, options) if is_spoiled else None
        yield report or run_check(subject_for(op, options), plan)
