"""Proves an operator equal to its reference; `opsmith.check(op)` is the entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opsmith._lazy import lazy_names

if TYPE_CHECKING:
    from opsmith.checker.api import Reports, check
    from opsmith.checker.outcome import Finding, Outcome
    from opsmith.checker.report import Column, Report, Result

__all__ = ["Column", "Finding", "Outcome", "Report", "Reports", "Result", "check"]

__getattr__ = lazy_names(
    __name__,
    {
        "Column": "report",
        "Finding": "outcome",
        "Outcome": "outcome",
        "Report": "report",
        "Reports": "api",
        "Result": "report",
        "check": "api",
    },
)
