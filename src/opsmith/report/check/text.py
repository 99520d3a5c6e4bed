"""Shows a check as text: the table, each finding, what was not run and why, the totals."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from opsmith.checker.outcome import Finding
from opsmith.checker.report import Column, Report
from opsmith.report.check.grid import MARKS, Failure, Grid, Row, failures_of, grid_of, kind_of, reasons_of, totals
from opsmith.report.terminal import Style, plain, wrapped
from opsmith.report.units import short_dtype

__all__ = ["failure_text", "report_lines", "report_text", "table_lines"]

_CELL = 6
_GAP = 2
_WIDTH = 100


def report_text(report: Report) -> str:
    """Return the whole report as text, without colours."""
    return "\n".join(report_lines(report))


def failure_text(report: Report) -> str:
    """Return what failed and the totals, without the table."""
    lines = [line for failure in failures_of(report) for line in [*_finding_lines(failure, plain, _WIDTH), ""]]
    errors = [f"{MARKS['error']} {result.name}: {result.outcome.note}" for result in report.errors]
    return "\n".join([*lines, *errors, totals(report)])


def report_lines(report: Report, *, style: Style = plain, width: int = _WIDTH, verbose: bool = False) -> Iterator[str]:
    """Yield the lines of a report. `verbose` shows a finding for every column, notes on what passed, and times."""
    yield from table_lines(report.operator, grid_of(report.results), style=style, seconds=verbose)
    yield ""
    failures = failures_of(report)
    shown = {id(failure.shown) for failure in failures}
    others = [Failure(result, ()) for result in report.failures if id(result) not in shown] if verbose else []
    for failure in [*failures, *others]:
        yield from _finding_lines(failure, style, width)
        yield ""
    for line in [*_notes(report, verbose), *_reasons(report)]:
        yield from (style(part, "dim") for part in wrapped(line, width))
    yield style(totals(report), "passed" if report.ok else "failed")


def table_lines(title: str, grid: Grid, *, style: Style = plain, seconds: bool = False) -> Iterator[str]:
    """Yield the table. What is checked once on a device stands in the middle below its element types."""
    width = max([len(title), *(len(row.name) for row in grid.rows), 16]) + _GAP
    gap = " " * _GAP
    heads = gap.join(device.ljust(_CELL * len(columns)) for device, columns in grid.columns.items())
    yield style(f"{title.ljust(width)}{heads}".rstrip(), "head")
    if any(column.dtype for columns in grid.columns.values() for column in columns):
        types = gap.join(
            "".join(short_dtype(column.dtype).ljust(_CELL) for column in columns) for columns in grid.columns.values()
        )
        yield style(f"{' ' * width}{types}".rstrip(), "dim")
    for row in grid.rows:
        cells = gap.join(_cells(row, device, columns, style) for device, columns in grid.columns.items())
        time = gap + style(f"{row.seconds:6.2f} s", "dim") if seconds else ""
        yield f"{row.name.ljust(width)}{cells}{time}".rstrip()


def _cells(row: Row, device: str, columns: tuple[Column, ...], style: Style) -> str:
    if device in row.spanning:
        state = kind_of(row.spanning[device])
        # Below the first letter of the middle column, or between two.
        before = (_CELL * (len(columns) - 1)) // 2 + 1
        after = _CELL * len(columns) - before - 1
        return f"{' ' * before}{style(MARKS[state], state)}{' ' * after}"
    parts = []
    for column in columns:
        outcome = row.cells.get(column)
        mark = style(MARKS[kind_of(outcome)], kind_of(outcome)) if outcome is not None else " "
        parts.append(f" {mark}{' ' * (_CELL - 2)}")
    return "".join(parts)


def _finding_lines(failure: Failure, style: Style, width: int) -> Iterator[str]:
    """Yield what a failed property has found: the message, the other columns, the hint, the snippet."""
    result = failure.shown
    head = f"{MARKS['failed']} {result.name}, {_where(result.column)}: "
    for finding in result.outcome.findings:
        yield from _finding(head, finding, failure.others, style, width)


def _where(column: Column) -> str:
    return f"{column.device}, {column.dtype}" if column.dtype else column.device


def _finding(head: str, finding: Finding, others: tuple[Column, ...], style: Style, width: int) -> Iterator[str]:
    first, *rest = finding.message.splitlines() or [""]
    lines = wrapped(head + first, width)
    yield from (line.replace(head, style(head, "failed"), 1) for line in lines)
    for line in rest:
        yield from wrapped(f"  {line}", width)
    if others:
        yield from wrapped(f"  The same property also fails in {_listed(others)}.", width)
    if finding.hint:
        yield from wrapped(f"  {finding.hint}", width)
    if finding.snippet:
        yield "  Smallest case, to paste:"
        yield ""
        yield from textwrap.indent(finding.snippet.rstrip(), "      ").splitlines()


def _listed(columns: tuple[Column, ...]) -> str:
    devices: dict[str, list[str]] = {}
    for column in columns:
        devices.setdefault(column.device, []).append(column.dtype)
    return "; ".join(f"{device} {', '.join(dtypes)}".strip() for device, dtypes in devices.items())


def _notes(report: Report, verbose: bool) -> Iterator[str]:
    dash = MARKS["not run"]
    yield from (f"{dash} {note}" for note in report.notes)
    if verbose:
        for result in report.results:
            if result.outcome.note and result.outcome.state != "not run":
                yield f"{dash} {result.name}, {_where(result.column)}: {result.outcome.note}"


def _reasons(report: Report) -> Iterator[str]:
    for reason, names in reasons_of(report).items():
        yield f"{MARKS['not run']} not run: {', '.join(names)} ({reason})"
