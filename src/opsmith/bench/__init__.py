"""How fast is an operator, and how fast could it be? `opsmith.bench(op)` finds out; the modules in here are how.

The package can be called: to Python's import system it is the package, to everybody else the
function. Importing it stays cheap: what measures, and torch with it, is imported by the call.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from opsmith._lazy import lazy_names

if TYPE_CHECKING:
    from opsmith.bench.api import BenchReports
    from opsmith.bench.machine import Machine
    from opsmith.bench.progress import Progress
    from opsmith.bench.result import BenchReport, Timing
    from opsmith.bench.statistics import Interval, Verdict

__all__ = ["BenchReport", "BenchReports", "Interval", "Machine", "Progress", "Timing", "Verdict"]

__getattr__ = lazy_names(
    __name__,
    {
        "BenchReport": "result",
        "BenchReports": "api",
        "Interval": "statistics",
        "Machine": "machine",
        "Progress": "progress",
        "Timing": "result",
        "Verdict": "statistics",
    },
)


class _BenchPackage(ModuleType):
    """The package's type: a module that times an operator when it is called."""

    def __call__(self, op: Any, **options: Any) -> BenchReport | BenchReports:
        """Time an operator; see `opsmith.bench.api.bench` for the arguments and the result."""
        from opsmith.bench.api import bench

        report: BenchReport | BenchReports = bench(op, **options)
        return report


sys.modules[__name__].__class__ = _BenchPackage
