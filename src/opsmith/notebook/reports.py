"""Shows the results of check, bench and the others in a notebook: as their text, and a benchmark with its plots."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell

if TYPE_CHECKING:
    from opsmith.benchmark.result import BenchReport

__all__ = ["show_reports"]

# By module, so that nothing of these is imported before its first result.
_RESULTS = {
    "opsmith.benchmark.api": ("BenchReports",),
    "opsmith.benchmark.result": ("BenchReport",),
    "opsmith.checker.api": ("Reports",),
    "opsmith.checker.mutate.report": ("MutationReport",),
    "opsmith.checker.report": ("Report",),
    "opsmith.profiler.result": ("ProfileReport",),
}


def show_reports(shell: InteractiveShell) -> None:
    """Have a shell print results as `print` does, and show benchmarks in a notebook as HTML."""
    formatters: Any = shell.display_formatter.formatters  # type: ignore[union-attr]
    for module, names in _RESULTS.items():
        for name in names:
            formatters["text/plain"].for_type_by_name(module, name, _print)
            if name.startswith("Bench"):
                formatters["text/html"].for_type_by_name(module, name, _bench_html)


def _print(result: object, printer: Any, cycle: bool) -> None:
    printer.text(str(result))


def _bench_html(result: BenchReport | Iterable[BenchReport]) -> str:
    from opsmith.benchmark.result import BenchReport
    from opsmith.report.bench.inline import reports_inline

    return reports_inline([result] if isinstance(result, BenchReport) else result)
