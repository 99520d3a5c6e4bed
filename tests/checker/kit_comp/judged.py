"""What some properties say of an operator."""

from __future__ import annotations

from typing import Any

# Custom operators import it on their first call: here once, and not in the child of every check.
import torch._dynamo  # noqa: F401

from opsmith.checker.outcome import Outcome
from opsmith.checker.properties.table import chosen
from opsmith.checker.run import CheckPlan, run_check
from opsmith.subject.subject import subject_of


def judge(op: Any, *properties: str, **how: Any) -> tuple[tuple[str, ...], dict[tuple[str, str], Outcome]]:
    """Check some properties in float64 and float16; return which failed, and all outcomes by property and element type.

    A check that could not be made because it failed itself fails the test.
    """
    report = run_check(subject_of(op, **how), CheckPlan(properties=chosen(properties), dtypes=("float64", "float16")))
    for result in report.results:
        assert "the check failed" not in result.outcome.note, result
    return report.failed, {(result.name, result.column.dtype): result.outcome for result in report.results}
