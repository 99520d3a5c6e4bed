"""Times an operator against its reference, the compiler and the machine's limit; `opsmith.bench` is the entry.

The results' types are exported lazily: what measures, and torch with it, is imported by the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opsmith._lazy import lazy_names

if TYPE_CHECKING:
    from opsmith.benchmark.api import BenchReports
    from opsmith.benchmark.machine import Machine
    from opsmith.benchmark.progress import Progress
    from opsmith.benchmark.result import BenchReport, Timing
    from opsmith.benchmark.statistics import Interval, Verdict

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
