"""Draws a benchmark for the output of a notebook's cell: its text, and each plot as a picture with a style of its own."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator

from markupsafe import Markup

from opsmith.benchmark.result import BenchReport
from opsmith.report.bench.grid import tables_of
from opsmith.report.bench.plots import ratio_plot, time_plot
from opsmith.report.bench.text import report_text
from opsmith.report.page import page

__all__ = ["reports_inline"]


def reports_inline(reports: Iterable[BenchReport]) -> str:
    """Return HTML that a notebook shows without a script, and whose style is not the notebook's."""
    return page("bench_inline", reports=[(report_text(report), tuple(_pictures(report))) for report in reports])


def _pictures(report: BenchReport) -> Iterator[tuple[str, str]]:
    """Yield the title and the address of each plot of a report."""
    for table in tables_of(report.timings):
        if table.timings:
            yield f"{table.title}: time of a call", _address(time_plot(table, standalone=True))
            yield f"{table.title}: times as fast", _address(ratio_plot(table, standalone=True))


def _address(picture: Markup) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(picture.encode()).decode()}"
