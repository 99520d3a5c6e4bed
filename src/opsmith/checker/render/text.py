"""How does a report look in a terminal? A table, then each finding, then what was not run and why, then the totals."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator

from opsmith.checker.outcome import Finding, Outcome
from opsmith.checker.render.grid import Failure, Grid, Row, failures_of, grid_of, reasons_of, short_dtype
from opsmith.checker.report import Column, Report

__all__ = ["Style", "finding_lines", "kind_of", "marks_for", "report_lines", "report_text", "table_lines", "totals"]

# Gets a text and what it is ("passed", "failed", "not run", "head", "dim"); gives it back, coloured.
Style = Callable[[str, str], str]

# "error" is a check that has failed itself.
_MARKS = {"passed": "✓", "failed": "✗", "not run": "–", "error": "!"}
_PLAIN_MARKS = {"passed": "+", "failed": "x", "not run": "-", "error": "!"}
_CELL = 6
_GAP = 2
_WIDTH = 100


def plain(text: str, kind: str) -> str:
    """Return a text as it is: the style of a log."""
    return text


def report_text(report: Report) -> str:
    """Return the whole report as text, without colours."""
    return "\n".join(report_lines(report))


def report_lines(
    report: Report, *, style: Style = plain, encoding: str = "utf-8", width: int = _WIDTH, verbose: bool = False
) -> Iterator[str]:
    """Yield the lines of a report. `verbose` shows a finding for every column, notes on what passed, and times."""
    marks = marks_for(encoding)
    yield from table_lines(report.operator, grid_of(report), marks, style=style, seconds=verbose)
    yield ""
    for failure in failures_of(report):
        yield from finding_lines(failure, marks, style=style, width=width)
        yield ""
    if verbose:
        yield from _more(report, marks, style, width)
    lines = [*_notes(report, marks, verbose), *_reasons(report, marks)]
    for line in lines:
        yield from (style(part, "dim") for part in _wrapped(line, width, "  "))
    yield style(totals(report), "passed" if report.ok else "failed")


def marks_for(encoding: str) -> dict[str, str]:
    """Return the marks that a stream of some encoding can show."""
    try:
        "".join(_MARKS.values()).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return _PLAIN_MARKS
    return _MARKS


def table_lines(
    title: str, grid: Grid, marks: dict[str, str], *, style: Style = plain, seconds: bool = False
) -> Iterator[str]:
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
        cells = gap.join(_cells(row, device, columns, marks, style) for device, columns in grid.columns.items())
        time = gap + style(f"{_seconds_of(row):6.2f} s", "dim") if seconds else ""
        yield f"{row.name.ljust(width)}{cells}{time}".rstrip()


def finding_lines(
    failure: Failure, marks: dict[str, str], *, style: Style = plain, width: int = _WIDTH
) -> Iterator[str]:
    """Yield what a failed property has found: the message, the other columns, the hint, the snippet."""
    result = failure.shown
    where = f"{result.name}, {_place(result.column)}"
    for finding in result.outcome.findings:
        yield from _finding(f"{marks['failed']} {where}: ", finding, failure.others, style, width)


def totals(report: Report) -> str:
    """Return what it all came to, in one line."""
    names = {result.name for result in report.results}
    states = [result.outcome.state for result in report.results]
    ran = sum(state != "not run" for state in states)
    inputs = sum(result.outcome.inputs for result in report.results)
    one_of = _count(len(names), "property")
    if report.ok:
        ran_names = {result.name for result in report.results if result.outcome.state == "passed"}
        verdict = f"{len(ran_names)} of {one_of} hold, {len(names) - len(ran_names)} not run"
        if len(ran_names) == len(names):
            verdict = f"all {one_of} hold" if len(names) > 1 else "the property holds"
    else:
        verdict = f"{len(report.failed)} of {one_of} failed"
    return (
        f"{verdict} · {_count(ran, 'check')} of {_count(inputs, 'input')} · seed {report.seed} · {report.seconds:.1f} s"
    )


def _count(number: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def _cells(row: Row, device: str, columns: tuple[Column, ...], marks: dict[str, str], style: Style) -> str:
    if device in row.spanning:
        state = kind_of(row.spanning[device])
        # Below the first letter of the middle column, or between two.
        before = (_CELL * (len(columns) - 1)) // 2 + 1
        after = _CELL * len(columns) - before - 1
        return f"{' ' * before}{style(marks[state], state)}{' ' * after}"
    parts = []
    for column in columns:
        outcome = row.cells.get(column)
        mark = style(marks[kind_of(outcome)], kind_of(outcome)) if outcome is not None else " "
        parts.append(f" {mark}{' ' * (_CELL - 2)}")
    return "".join(parts)


def kind_of(outcome: Outcome) -> str:
    """Return what an outcome is shown as: its state, or "error" where the check has failed itself."""
    return "error" if outcome.is_error else outcome.state


def _seconds_of(row: Row) -> float:
    return sum(outcome.seconds for outcome in [*row.cells.values(), *row.spanning.values()])


def _place(column: Column) -> str:
    return f"{column.device}, {column.dtype}" if column.dtype else column.device


def _finding(head: str, finding: Finding, others: tuple[Column, ...], style: Style, width: int) -> Iterator[str]:
    first, *rest = finding.message.splitlines() or [""]
    lines = _wrapped(head + first, width, "  ")
    yield from (line.replace(head, style(head, "failed"), 1) for line in lines)
    for line in rest:
        yield from _wrapped(f"  {line}", width, "  ")
    if others:
        yield from _wrapped(f"  The same property fails in {_listed(others)} too.", width, "  ")
    if finding.hint:
        yield from _wrapped(f"  {finding.hint}", width, "  ")
    if finding.snippet:
        yield "  Smallest case, to paste:"
        yield ""
        yield from textwrap.indent(finding.snippet.rstrip(), "      ").splitlines()


def _listed(columns: tuple[Column, ...]) -> str:
    devices: dict[str, list[str]] = {}
    for column in columns:
        devices.setdefault(column.device, []).append(column.dtype)
    return "; ".join(f"{device} {', '.join(dtypes)}".strip() for device, dtypes in devices.items())


def _more(report: Report, marks: dict[str, str], style: Style, width: int) -> Iterator[str]:
    shown = {id(failure.shown) for failure in failures_of(report)}
    for result in report.failures:
        if id(result) not in shown:
            yield from finding_lines(Failure(result, ()), marks, style=style, width=width)
            yield ""


def _notes(report: Report, marks: dict[str, str], verbose: bool) -> Iterator[str]:
    dash = marks["not run"]
    yield from (f"{dash} {note}" for note in report.notes)
    if verbose:
        for result in report.results:
            if result.outcome.note and result.outcome.state != "not run":
                yield f"{dash} {result.name}, {_place(result.column)}: {result.outcome.note}"


def _reasons(report: Report, marks: dict[str, str]) -> Iterator[str]:
    for reason, names in reasons_of(report).items():
        yield f"{marks['not run']} not run: {', '.join(names)} ({reason})"


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    found = textwrap.wrap(
        text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False, drop_whitespace=True
    )
    return found or [""]
