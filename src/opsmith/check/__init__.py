"""Is an operator what its definition says? `opsmith.check(op)` finds out; the modules in here are how.

The package can be called, because `opsmith.check` has to be both: the package, to Python's import system, and the
function, to everybody else. Python looks for `__call__` on a module's type, and allows a type of its own for a module
(https://docs.python.org/3/reference/datamodel.html#customizing-module-attribute-access). Importing it stays cheap: the
checks, and torch with them, are imported by the call.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from opsmith._lazy import lazy_names

if TYPE_CHECKING:
    from opsmith.check.api import Reports
    from opsmith.check.outcome import Finding, Outcome
    from opsmith.check.report import Column, Report, Result

__all__ = ["Column", "Finding", "Outcome", "Report", "Reports", "Result"]

__getattr__ = lazy_names(
    __name__,
    {
        "Column": "report",
        "Finding": "outcome",
        "Outcome": "outcome",
        "Report": "report",
        "Reports": "api",
        "Result": "report",
    },
)


class _CheckPackage(ModuleType):
    """The package's type: a module that checks an operator when it is called."""

    def __call__(self, op: Any, **options: Any) -> Report | Reports:
        """Check an operator; see `opsmith.check.api.check` for the arguments and the result."""
        from opsmith.check.api import check

        report: Report | Reports = check(op, **options)
        return report


sys.modules[__name__].__class__ = _CheckPackage
