"""Shows a benchmark as Markdown: a table for each element type and phase, with the machine and the date."""

from __future__ import annotations

from collections.abc import Iterator

from opsmith.benchmark.result import BenchReport, Timing
from opsmith.report.bench.grid import Row, Table, machine_words, tables_of
from opsmith.report.markdown import escaped, row_markdown
from opsmith.report.units import duration, percent, size, verdict_text

__all__ = ["limit_cell", "ratio_cell", "report_markdown", "table_markdown", "time_cell"]


def report_markdown(report: BenchReport) -> str:
    """Return a report as Markdown, ending in a newline."""
    about = (
        f"{machine_words(report)}, {report.date[:10]}; medians of alternating rounds, ratios with their 95 % interval"
    )
    lines = [f"**`{report.operator}`** ({escaped(about)})"]
    for table in tables_of(report.timings):
        lines += ["", f"{table.title}:", "", *table_markdown(table)]
    return "\n".join(lines) + "\n"


def table_markdown(table: Table) -> Iterator[str]:
    """Yield one table: the operator's time, how many times as fast it is, its share of the limit, its memory."""
    has_memory = any(timing.peak_bytes is not None for timing in table.timings)
    heads = [table.head, table.own, *(f"against {name}" for name in table.others), "of the limit"]
    yield row_markdown([*heads, *(["memory"] if has_memory else [])])
    yield row_markdown(["---"] * (len(heads) + has_memory))
    for row in table.rows:
        cells = [row.label, time_cell(row.own), *(ratio_cell(row, name) for name in table.others), limit_cell(row.own)]
        yield row_markdown([*cells, *([_memory(row)] if has_memory else [])])


def time_cell(timing: Timing | None) -> str:
    """Return the time of a call, or that it is wrong, or that there is none."""
    if timing is None or timing.time is None or timing.is_wrong:
        return "wrong" if timing is not None and timing.is_wrong else "–"
    return duration(timing.time.middle)


def ratio_cell(row: Row, name: str) -> str:
    """Return how many times as fast the operator is as a competitor, or that this one is wrong, or that it is not known."""
    timing, verdict = row.timings.get(name), row.verdict(name)
    if timing is not None and timing.is_wrong:
        return "wrong"
    return "–" if verdict is None else verdict_text(verdict)


def limit_cell(timing: Timing | None) -> str:
    """Return what part of the machine's limit a timing reaches, and which limit that is."""
    return "–" if timing is None or timing.share is None else f"{percent(timing.share)}, {timing.bound}"


def _memory(row: Row) -> str:
    own, eager = row.own, row.timings.get("eager")
    if own is None or own.peak_bytes is None:
        return "–"
    return size(own.peak_bytes) + (f" against {size(eager.peak_bytes)}" if eager and eager.peak_bytes else "")
