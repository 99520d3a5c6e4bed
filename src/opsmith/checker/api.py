"""Checks operators from Python: `opsmith.check(op)`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from opsmith._keywords import names_in
from opsmith.checker.options import CheckOptions
from opsmith.checker.properties.table import chosen
from opsmith.checker.report import Report
from opsmith.checker.run import CheckPlan, run_check
from opsmith.errors import CheckError
from opsmith.subject.selection import dtype_names
from opsmith.subject.subject import Subject, subject_of
from opsmith.subject.verb import verb

__all__ = ["Reports", "check", "plan_of", "subject_for"]


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

    The work is done in child processes, so that a crash is a finding. Nothing is raised for what is found; ask
    `report.ok`, or call `report.raise_if_failed()`. Raises ArgumentError if there is nothing to compare with or to call
    with, and BuildError if the operator cannot be built.
    """
    plan = plan_of(options)
    for op in operators:
        yield run_check(subject_for(op, options), plan)


def plan_of(options: CheckOptions) -> CheckPlan:
    """Return what `run_check` does for the options; raises ArgumentError for a property that does not exist."""
    return CheckPlan(
        properties=chosen(names_in(options.properties)),
        dtypes=dtype_names(options.dtypes),
        thorough=options.thorough,
        large=options.large,
        seconds=options.seconds,
    )


def subject_for(op: Any, options: CheckOptions) -> Subject:
    """Return what is checked for an operator; raises ArgumentError if there is nothing to compare or to call with."""
    return subject_of(
        op,
        reference=options.reference,
        examples=options.examples,
        devices=names_in(options.devices) or None,
        seed=options.seed,
    )
