"""Turns the options of a check into what `run_check` takes: a plan, and an operator with its inputs."""

from __future__ import annotations

from typing import Any

from opsmith._keywords import names_in
from opsmith.checker.options import CheckOptions
from opsmith.checker.properties.table import chosen
from opsmith.checker.run import CheckPlan
from opsmith.subject.selection import dtype_names
from opsmith.subject.subject import Subject, subject_of

__all__ = ["plan_of", "subject_for"]


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
