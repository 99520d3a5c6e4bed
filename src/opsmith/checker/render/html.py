"""How does a report look in a browser? One page that needs no other file, no script and no network, in light and dark."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from html import escape

from opsmith.checker.outcome import Finding, Outcome
from opsmith.checker.properties.table import PROPERTIES
from opsmith.checker.render.as_json import machine_facts
from opsmith.checker.render.grid import Grid, Row, grid_of, reasons_of, short_dtype
from opsmith.checker.render.html_style import STYLE
from opsmith.checker.render.text import kind_of, totals
from opsmith.checker.report import Column, Report, Result

__all__ = ["reports_as_html"]

_MARKS = {"passed": "✓", "failed": "✗", "not run": "–", "error": "!"}
_TITLES = {item.name: item.title for item in PROPERTIES}
_SLOW_S = 0.05


def reports_as_html(reports: Iterable[Report]) -> str:
    """Return a page with all reports."""
    listed = list(reports)
    wrong = [report.operator for report in listed if not report.ok]
    verdict = f"{len(wrong)} of {_count(len(listed), 'operator')} failed" if wrong else "Every property holds"
    if not wrong and any(result.outcome.state == "not run" for report in listed for result in report.results):
        verdict = "Everything that was run holds"
    sections = "\n".join(_section(number, report) for number, report in enumerate(listed))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>opsmith check: {escape(', '.join(report.operator for report in listed))}</title>\n"
        f"<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<header><p class="tool">opsmith check</p><h1 class="{"failed" if wrong else "passed"}">{escape(verdict)}</h1>'
        f"{_overview(listed)}</header>\n{sections}\n<footer>{escape(_made_on())}</footer>\n</main>\n</body>\n</html>\n"
    )


def _overview(reports: list[Report]) -> str:
    if len(reports) < 2:
        return ""
    items = "".join(
        f'<li class="{"passed" if report.ok else "failed"}"><a href="#op{number}">{escape(report.operator)}</a>'
        f"{' ' + escape(', '.join(report.failed)) if report.failed else ''}</li>"
        for number, report in enumerate(reports)
    )
    return f'<ul class="overview">{items}</ul>'


def _section(number: int, report: Report) -> str:
    grid = grid_of(report)
    ids = {id(result): f"op{number}-{index}" for index, result in enumerate(report.failures)}
    anchors = {(result.name, result.column): ids[id(result)] for result in report.failures}
    parts = [
        f'<section id="op{number}">',
        f'<h2>{escape(report.operator)}</h2><p class="totals">{escape(totals(report))}</p>',
        *(f'<p class="note">{escape(note)}</p>' for note in report.notes),
        f'<div class="scroll">{_table(grid, anchors)}</div>',
        *(_details(result, ids[id(result)], index == 0) for index, result in enumerate(report.failures)),
        _not_run(report),
        _times(grid),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _table(grid: Grid, anchors: dict[tuple[str, Column], str]) -> str:
    devices = "".join(
        f'<th class="device" colspan="{len(columns)}">{escape(device)}</th>' for device, columns in grid.columns.items()
    )
    columns = [column for columns in grid.columns.values() for column in columns]
    types = "".join(
        f'<th title="{escape(column.dtype)}">{escape(short_dtype(column.dtype))}</th>' for column in columns
    )
    rows = "\n".join(_row(row, grid, anchors) for row in grid.rows)
    return (
        f'<table class="grid"><thead><tr><th></th>{devices}</tr><tr><th></th>{types}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody></table>"
    )


def _row(row: Row, grid: Grid, anchors: dict[tuple[str, Column], str]) -> str:
    cells = []
    for device, columns in grid.columns.items():
        if device in row.spanning:
            anchor = anchors.get((row.name, Column(device, "")))
            cells.append(_cell(row.spanning[device], anchor, len(columns)))
        else:
            cells += [_cell(row.cells.get(column), anchors.get((row.name, column)), 1) for column in columns]
    name = f'<th scope="row">{escape(row.name)}<small>{escape(_TITLES.get(row.name, ""))}</small></th>'
    return f"<tr>{name}{''.join(cells)}</tr>"


def _cell(outcome: Outcome | None, anchor: str | None, span: int) -> str:
    width = f' colspan="{span}"' if span > 1 else ""
    if outcome is None:
        return f"<td{width}></td>"
    kind = kind_of(outcome)
    about = outcome.note if outcome.state == "not run" else f"{outcome.inputs} inputs, {outcome.seconds:.2f} s"
    if outcome.note and outcome.state != "not run":
        about += f"; {outcome.note}"
    mark = f'<a href="#{anchor}">{_MARKS[kind]}</a>' if anchor else _MARKS[kind]
    label = escape(f"{outcome.state}: {about}", quote=True)
    return f'<td class="{kind.replace(" ", "-")}" title="{label}"{width}>{mark}</td>'


def _details(result: Result, anchor: str, is_open: bool) -> str:
    where = f"{result.column.device} {result.column.dtype}".rstrip()
    findings = "".join(_finding(finding) for finding in result.outcome.findings)
    return (
        # A link to what lies inside opens it.
        f'<details class="finding"{" open" if is_open else ""}>'
        f'<summary><span class="failed">✗</span> <b>{escape(result.name)}</b>, {escape(where)}</summary>'
        f'<div id="{anchor}">{findings}</div></details>'
    )


def _finding(finding: Finding) -> str:
    first, *rest = finding.message.splitlines() or [""]
    parts = [f"<p>{escape(first)}</p>"]
    parts += [f"<pre>{escape(chr(10).join(rest))}</pre>"] if rest else []
    parts += [f'<p class="hint">{escape(finding.hint)}</p>'] if finding.hint else []
    if finding.snippet:
        parts.append(f'<p class="label">Smallest case, to paste</p><pre><code>{escape(finding.snippet)}</code></pre>')
    return "".join(parts)


def _not_run(report: Report) -> str:
    reasons = reasons_of(report)
    if not reasons:
        return ""
    items = "".join(
        f"<li><b>{escape(', '.join(names))}</b>: {escape(reason)}</li>" for reason, names in reasons.items()
    )
    return f"<details><summary>Not run, and why</summary><ul>{items}</ul></details>"


def _times(grid: Grid) -> str:
    seconds = {row.name: sum(o.seconds for o in [*row.cells.values(), *row.spanning.values()]) for row in grid.rows}
    most = max(seconds.values(), default=0.0)
    if most < _SLOW_S:
        return ""
    rows = "".join(_bar(name, value, most) for name, value in sorted(seconds.items(), key=lambda pair: -pair[1]))
    return f'<details><summary>Where the time went</summary><table class="times">{rows}</table></details>'


def _bar(name: str, seconds: float, most: float) -> str:
    width = 100 * seconds / most
    return (
        f'<tr><th scope="row">{escape(name)}</th><td class="number">{seconds:.2f} s</td>'
        f'<td><span class="bar" style="width:{width:.1f}%"></span></td></tr>'
    )


def _made_on() -> str:
    facts = machine_facts()
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    parts: Iterator[str] = (
        part
        for part in (
            f"opsmith {facts['opsmith']}",
            f"torch {facts['torch']}",
            f"Python {facts['python']}",
            facts["system"],
            f"{facts['processor']}, {_count(facts['cores'], 'core')}",
            facts["gpu"],
            date,
        )
        if part
    )
    return " · ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
