"""Shows a benchmark as text: a table for each element type and phase, then what could not be timed and why.

Where the window is too narrow for a column for each competitor, each gets a line of its own. `verbose` shows those lines
always: they have space for every competitor's own time, by the clock too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from opsmith.benchmark.result import BenchReport, Timing
from opsmith.benchmark.statistics import Verdict
from opsmith.report.bench.grid import (
    Row,
    Table,
    limit_words,
    machine_words,
    noise_of,
    problem_text,
    problems_of,
    remarks_of,
    slower_words,
    tables_of,
)
from opsmith.report.terminal import WIDTH, Cell, Style, aligned, bar, plain, width_of, wrapped
from opsmith.report.units import duration, percent, size, verdict_text

__all__ = ["report_lines", "report_text", "table_lines", "totals"]

_NONE: Cell = ("–", "dim")
_INDENT = "  "
_BAR_LENGTH = 5


def report_text(report: BenchReport) -> str:
    """Return the whole report as text, without colours."""
    return "\n".join(report_lines(report))


def report_lines(
    report: BenchReport, *, style: Style = plain, width: int = WIDTH, verbose: bool = False
) -> Iterator[str]:
    """Yield the lines of a report. `verbose` shows each competitor's time, by the clock too, and what making it took."""
    yield from _head(report, style, width)
    for table in tables_of(report.timings):
        yield ""
        yield from table_lines(table, style=style, width=width, verbose=verbose)
    yield ""
    for line, kind in [*_problems(report), *_remarks(report)]:
        first, *rest = wrapped(line, width)
        yield style(first, kind)
        yield from (style(text, kind) for text in rest)
    yield from (style(line, "dim") for line in wrapped(totals(report), width))


def table_lines(table: Table, *, style: Style = plain, width: int = WIDTH, verbose: bool = False) -> Iterator[str]:
    """Yield one table, as wide as fits."""
    yield style(table.title, "head")
    wide = _wide(table)
    rows = _tall(table, width, verbose) if verbose or width_of(wide) > width else wide
    yield from aligned(rows, style)


def totals(report: BenchReport) -> str:
    """Return in one line how the figures are to be read and how they were taken."""
    parts = ["1.50x: 1.5 times as fast as that competitor; brackets: 95 % interval"]
    if (noise := noise_of(report.timings)) is not None:
        parts.append(f"repeated timings differed by {_range(*noise)}")
    return " · ".join([*parts, f"seed {report.seed}", f"{report.seconds:.0f} s"])


def _head(report: BenchReport, style: Style, width: int) -> Iterator[str]:
    machine = machine_words(report)
    space = width - len(report.operator) - len(machine)
    if space >= 2:
        yield style(report.operator, "head") + " " * min(space, 8) + style(machine, "dim")
    else:
        yield style(report.operator, "head")
        yield from (style(line, "dim") for line in wrapped(machine, width))
    if limits := ", ".join(limit_words(report)):
        yield from (style(line, "dim") for line in wrapped(f"the machine's limit, measured: {limits}", width))


def _wide(table: Table) -> list[list[Cell]]:
    """Return a row for each size: the operator's time, the others' ratios, the share of the limit, the memory."""
    columns: list[tuple[str, Callable[[Row], Cell]]] = [
        (table.head, lambda row: (row.label, "")),
        (table.own, lambda row: _time(row.own)),
    ]
    if any(timing.wall != timing.time for timing in table.timings):
        columns.append(("by the clock", lambda row: _NONE if row.own is None else _wall(row.own)))
    columns += [(name, partial(_ratio, name=name)) for name in table.others]
    columns.append(("of the limit", lambda row: _limit(row.own)))
    if any(timing.peak_bytes is not None for timing in table.timings):
        columns.append(("memory", _memory))
    head: list[Cell] = [(title, "dim") for title, _ in columns]
    return [head, *([write(row) for _, write in columns] for row in table.rows)]


def _tall(table: Table, width: int, verbose: bool) -> list[list[Cell]]:
    """Return a row for each competitor of each size, with the columns that fit."""
    columns = list(_columns(table, verbose))
    rows: list[list[Cell]] = [[(table.head, "dim"), *((title, "dim") for title, _ in columns)]]
    for row in table.rows:
        rows.append([(row.label, "")])
        for name in (table.own, *table.others):
            if name in row.timings:
                shown = [write(row, name) for _, write in columns]
                rows.append([(f"{_INDENT}{name}", "own" if name == table.own else ""), *shown])
    while not verbose and len(rows[0]) > 3 and width_of(rows) > width:
        rows = [row[: len(rows[0]) - 1] for row in rows]
    return rows


def _columns(table: Table, verbose: bool) -> Iterator[tuple[str, Callable[[Row, str], Cell]]]:
    """Yield the columns of the tall table, the most important first: what a cell says of a competitor in a row."""

    def others(write: Callable[[Row, str], Cell]) -> Callable[[Row, str], Cell]:
        return lambda row, name: ("", "") if name == table.own else write(row, name)

    yield "time", lambda row, name: _time(row.timings[name])
    yield "times as fast", others(_ratio)
    if verbose:
        yield "median in, 95 %", lambda row, name: _interval(row.timings[name])
    if any(timing.wall != timing.time for timing in table.timings):
        yield "by the clock", lambda row, name: _wall(row.timings[name])
        if verbose:
            yield "times as fast", others(_wall_ratio)
    yield "of the limit", lambda row, name: _limit(row.own) if name == table.own else ("", "")
    if any(timing.peak_bytes is not None for timing in table.timings):
        yield "memory", lambda row, name: _plainly(row.timings[name].peak_bytes, size)
    if verbose:
        yield "rounds", lambda row, name: _plainly(row.timings[name].rounds, str)
        yield "made in", lambda row, name: _plainly(row.timings[name].prepare_s, duration)


def _time(timing: Timing | None) -> Cell:
    if timing is None or timing.time is None:
        return ("✗", "wrong") if timing is not None and timing.is_wrong else _NONE
    return (f"✗ {duration(timing.time.middle)}", "wrong") if timing.is_wrong else (duration(timing.time.middle), "own")


def _interval(timing: Timing) -> Cell:
    return _NONE if timing.time is None else (f"[{duration(timing.time.low)}, {duration(timing.time.high)}]", "")


def _wall(timing: Timing) -> Cell:
    return _NONE if timing.wall is None else (duration(timing.wall.middle), "")


def _ratio(row: Row, name: str) -> Cell:
    timing = row.timings.get(name)
    if timing is not None and timing.is_wrong:
        return ("✗", "wrong")
    return _verdict(row.verdict(name))


def _wall_ratio(row: Row, name: str) -> Cell:
    return _verdict(row.verdict(name, "wall"))


def _verdict(verdict: Verdict | None) -> Cell:
    return _NONE if verdict is None else (verdict_text(verdict), verdict.kind)


def _limit(timing: Timing | None) -> Cell:
    if timing is None or timing.share is None:
        return _NONE
    note = " *" if timing.notes else ""
    return f"{bar(timing.share, _BAR_LENGTH)} {percent(timing.share):>5}  {timing.bound}{note}", ""


def _memory(row: Row) -> Cell:
    own, eager = row.own, row.timings.get("eager")
    if own is None or own.peak_bytes is None:
        return _NONE
    beside = f" (eager {size(eager.peak_bytes)})" if eager is not None and eager.peak_bytes is not None else ""
    return f"{size(own.peak_bytes)}{beside}", ""


def _plainly(value: float | int | None, write: Callable[[int], str] | Callable[[float], str]) -> Cell:
    return (write(value), "") if value else _NONE  # type: ignore[arg-type]


def _problems(report: BenchReport) -> Iterator[Cell]:
    for problem in problems_of(report.timings):
        sign, kind = ("✗", "wrong") if problem.is_wrong else ("–", "dim")
        yield f"{sign} {problem_text(problem)}", kind


def _remarks(report: BenchReport) -> Iterator[Cell]:
    if words := slower_words(report.timings):
        yield f"– {words}", "dim"
    for remark in remarks_of(report.timings):
        yield f"* {remark}", "dim"
    for warning in report.warnings:
        yield f"! {warning}", "warning"


def _range(low: float, high: float) -> str:
    least, most = f"{100 * low:.1f}", f"{100 * high:.1f}"
    return f"{most} %" if least == most else f"{least} to {most} %"
