"""Draws what a check found as an HTML page: one file that needs no other, no script and no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from opsmith.checker.as_json import machine_facts
from opsmith.checker.outcome import Finding, Outcome
from opsmith.checker.properties.table import PROPERTIES
from opsmith.checker.report import Column, Report
from opsmith.report.check.grid import MARKS, Grid, Row, grid_of, kind_of, reasons_of, totals
from opsmith.report.page import Link, made_on, page
from opsmith.report.units import count_of

__all__ = ["Section", "reports_as_html", "section_of"]

_TITLES = {item.name: item.title for item in PROPERTIES}
# Checks that are over sooner have no table of their times.
_LEAST_S = 0.05


@dataclass(frozen=True)
class Cell:
    """One cell of the table; `kind` is empty if nothing was to be checked."""

    kind: str = ""
    mark: str = ""
    about: str = ""
    span: int = 1
    anchor: str = ""


@dataclass(frozen=True)
class TableRow:
    """A property with what it holds, and its cells."""

    name: str
    title: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Failure:
    """A failed property in one column."""

    anchor: str
    name: str
    where: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Section:
    """One operator, as the template `check_section` takes it; `times` are names, seconds and parts of the longest."""

    anchor: str
    operator: str
    totals: str
    notes: tuple[str, ...]
    columns: dict[str, tuple[Column, ...]]
    rows: tuple[TableRow, ...]
    failures: tuple[Failure, ...]
    reasons: dict[str, list[str]]
    times: tuple[tuple[str, float, float], ...]


def reports_as_html(reports: Iterable[Report]) -> str:
    """Return a page with all reports."""
    listed = list(reports)
    links = [
        Link(f"op{number}", report.operator, "passed" if report.ok else "failed", _names_of(report))
        for number, report in enumerate(listed)
    ]
    return page(
        "check",
        title=f"opsmith check: {', '.join(report.operator for report in listed)}",
        tool="opsmith check",
        kind="passed" if all(report.ok for report in listed) else "failed",
        headline=_headline(listed),
        links=links,
        sections=[section_of(report, link.anchor) for report, link in zip(listed, links, strict=True)],
        footer=made_on(machine_facts(), datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")),
    )


def _names_of(report: Report) -> str:
    """Return the properties that failed, or those in which the check itself did."""
    return ", ".join(report.failed or dict.fromkeys(result.name for result in report.errors))


def section_of(report: Report, anchor: str) -> Section:
    """Return a report as the template takes it; ids in it begin with `anchor`."""
    grid = grid_of(report.results)
    failures = tuple(
        Failure(
            f"{anchor}-{index}",
            result.name,
            f"{result.column.device} {result.column.dtype}".rstrip(),
            result.outcome.findings,
        )
        for index, result in enumerate(report.failures)
    )
    anchors = {
        (result.name, result.column): failure.anchor for result, failure in zip(report.failures, failures, strict=True)
    }
    rows = tuple(TableRow(row.name, _TITLES.get(row.name, ""), _cells(row, grid, anchors)) for row in grid.rows)
    return Section(
        anchor,
        report.operator,
        totals(report),
        report.notes,
        dict(grid.columns),
        rows,
        failures,
        reasons_of(report),
        _times(grid),
    )


def _headline(reports: Sequence[Report]) -> str:
    wrong = sum(not report.ok for report in reports)
    if wrong:
        return f"{wrong} of {count_of(len(reports), 'operator')} failed"
    if any(result.outcome.state == "not run" for report in reports for result in report.results):
        return "Everything that ran holds"
    return "Every property holds"


def _cells(row: Row, grid: Grid, anchors: dict[tuple[str, Column], str]) -> tuple[Cell, ...]:
    cells = []
    for device, columns in grid.columns.items():
        if device in row.spanning:
            anchor = anchors.get((row.name, Column(device, "")), "")
            cells.append(_cell(row.spanning[device], anchor, len(columns)))
        else:
            cells += [_cell(row.cells.get(column), anchors.get((row.name, column), ""), 1) for column in columns]
    return tuple(cells)


def _cell(outcome: Outcome | None, anchor: str, span: int) -> Cell:
    if outcome is None:
        return Cell(span=span)
    kind = kind_of(outcome)
    parts = [] if outcome.state == "not run" else [f"{outcome.inputs} inputs, {outcome.seconds:.2f} s"]
    about = "; ".join([*parts, *([outcome.note] if outcome.note else [])])
    return Cell(kind.replace(" ", "-"), MARKS[kind], f"{outcome.state}: {about}", span, anchor)


def _times(grid: Grid) -> tuple[tuple[str, float, float], ...]:
    seconds = {row.name: row.seconds for row in grid.rows}
    longest = max(seconds.values(), default=0.0)
    if longest < _LEAST_S:
        return ()
    ordered = sorted(seconds.items(), key=lambda pair: -pair[1])
    return tuple((name, value, value / longest) for name, value in ordered)
