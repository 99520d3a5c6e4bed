"""How does a benchmark look in a browser? One page that needs no other file and no network, with plots to be pointed at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from opsmith.benchmark.render.grid import (
    Table,
    machine_words,
    noise_of,
    problem_text,
    problems_of,
    remarks_of,
    tables_of,
)
from opsmith.benchmark.render.html_script import SCRIPT
from opsmith.benchmark.render.html_style import STYLE
from opsmith.benchmark.render.html_table import figures
from opsmith.benchmark.render.plots import memory_plot, number_of, ratio_plot, roof_plot, swatch, time_plot
from opsmith.benchmark.render.summary import summary_of
from opsmith.benchmark.render.units import count_of, duration, with_prefix
from opsmith.benchmark.result import BenchReport

__all__ = ["reports_as_html"]

_METHOD = """
<p>All competitors were timed in turn, in one run: every round takes one sample of each, in an order of its own, so that
whatever disturbed the machine for a while disturbed all of them. Inputs were taken in rotation from more memory than the
cache holds. The operator was timed twice in every round, as if it were two: how far its two series are apart is the noise
of this run, and no difference smaller than that is called one.</p>
<p>A ratio is formed within each round; shown is the median of those, and in brackets the interval that holds it with 95 %,
from drawing whole blocks of rounds again (the moving-block bootstrap). Results were compared with the reference before and
after they were timed.</p>
<p>The machine's limit for a call is the time in which it can move every input and every output once, at the rate of a large
copy measured here, or do the call's operations at the rate of PyTorch's own matrix product measured here, whichever is
longer.</p>
"""


def reports_as_html(reports: Iterable[BenchReport]) -> str:
    """Return a page with all reports."""
    listed = list(reports)
    names = ", ".join(report.operator for report in listed)
    sections = "\n".join(_section(number, report, has_title=len(listed) > 1) for number, report in enumerate(listed))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>opsmith bench: {escape(names)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<header><p class="tool">opsmith bench</p><h1>{escape(_headline(listed))}</h1>{_overview(listed)}</header>\n'
        f"{sections}\n</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def _headline(reports: Sequence[BenchReport]) -> str:
    wrong = [report.operator for report in reports if not report.ok]
    if wrong:
        return f"Not to be believed yet: {', '.join(wrong)}"
    return reports[0].operator if len(reports) == 1 else count_of(len(reports), "operator")


def _overview(reports: Sequence[BenchReport]) -> str:
    if len(reports) < 2:
        return ""
    items = "".join(f'<li><a href="#op{n}">{escape(report.operator)}</a></li>' for n, report in enumerate(reports))
    return f'<ul class="overview">{items}</ul>'


def _section(number: int, report: BenchReport, *, has_title: bool) -> str:
    tables = tables_of(report.timings)
    ids = [f"op{number}-{index}" for index in range(len(tables))]
    tiles = "".join(_tile(table, anchor) for table, anchor in zip(tables, ids, strict=True))
    title = f"<h2>{escape(report.operator)}</h2>" if has_title else ""
    problems, remarks = problems_of(report.timings), remarks_of(report.timings)
    phases = len({table.phase for table in tables})
    parts = [
        f'<section id="op{number}">',
        f'{title}<p class="about">{escape(machine_words(report))}, {escape(report.date[:10])}</p>',
        *(f'<p class="warning">! {escape(text)}</p>' for text in report.warnings),
        *(f'<p class="wrong">✗ {escape(problem_text(problem))}</p>' for problem in problems if problem.is_wrong),
        f'<nav class="tiles" style="--n: {phases}" aria-label="element types and phases">{tiles}</nav>',
        *(_panel(report, table, anchor) for table, anchor in zip(tables, ids, strict=True)),
        _notes([*(f"– {problem_text(p)}" for p in problems if not p.is_wrong), *(f"* {text}" for text in remarks)]),
        f"<details><summary>Machine and versions</summary>{_machine(report)}</details>",
        f"<details><summary>How this was measured</summary>{_METHOD}{_run(report)}</details>",
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _tile(table: Table, anchor: str) -> str:
    summary = summary_of(table)
    lines = "".join(f"<span>{escape(line)}</span>" for line in summary.lines)
    return (
        f'<a class="tile" href="#{anchor}"><span class="what">{escape(table.title)}</span>'
        f'<b class="{summary.kind}">{escape(summary.figure)}</b>{lines}</a>'
    )


def _panel(report: BenchReport, table: Table, anchor: str) -> str:
    plots = [_figure("Time of a call", "bars: the interval of 95 %; dotted: the machine's limit", time_plot(table))]
    plots.append(
        _figure(f"How many times as fast {table.own} is", "pale: no difference beyond the noise", ratio_plot(table))
    )
    roof, title = roof_plot(table, report.limits)
    plots.append(_figure(title, "dotted: what this machine reaches at most", roof))
    if (memory := memory_plot(table)) is not None:
        plots.append(_figure("Memory of a call", "at its peak, beside the inputs", memory))
    drawn = "".join(plots) if table.timings else '<p class="note">Nothing could be timed.</p>'
    return (
        f'<div class="panel" id="{anchor}"><h3>{escape(table.title)}</h3>{_legend(table)}'
        f'<div class="plots">{drawn}</div><div class="scroll">{figures(table)}</div></div>'
    )


def _figure(title: str, about: str, plot: str) -> str:
    return f"<figure><figcaption>{escape(title)}<span>{escape(about)}</span></figcaption>{plot}</figure>"


def _legend(table: Table) -> str:
    buttons = "".join(
        f'<button type="button" disabled aria-pressed="true" data-name="{escape(name, quote=True)}">'
        f"{swatch(number_of(name, table.others))}{escape(name)}</button>"
        for name in (table.own, *table.others)
    )
    return f'<div class="legend">{buttons}</div>'


def _notes(lines: Sequence[str]) -> str:
    if not lines:
        return ""
    items = "".join(f"<p>{escape(line)}</p>" for line in lines)
    return f"<details><summary>Notes, and what was not timed</summary>{items}</details>"


def _machine(report: BenchReport) -> str:
    machine, limits = report.machine, report.limits
    facts = {
        "GPU" if machine.device == "cuda" else "processor": machine.name,
        "driver": machine.driver,
        "cores": f"{machine.cores}, {count_of(machine.threads, 'thread')} of PyTorch's",
        "torch": machine.torch,
        "Python": machine.python,
        "system": machine.system,
        "copy": with_prefix(limits["copy_bytes_s"], "B/s") if limits.get("copy_bytes_s") else "",
        "matrix product": ", ".join(
            f"{with_prefix(rate, 'FLOP/s')} in {dtype}" for dtype, rate in limits.get("matmul_flops_s", {}).items()
        ),
        "smallest call": duration(limits["launch_s"]) if limits.get("launch_s") else "",
        **{name.replace("_", " "): _said(value) for name, value in report.conditions.items()},
    }
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in facts.items() if value)
    return f"<dl>{rows}</dl>"


def _said(value: Any) -> str:
    """Return a condition as text: a mapping's items, a number with few digits."""
    if isinstance(value, Mapping):
        return ", ".join(
            f"{str(name).replace('_', ' ')} {_said(item)}" for name, item in value.items() if item is not None
        )
    if isinstance(value, list | tuple):
        return ", ".join(map(_said, value))
    return f"{value:.3g}" if isinstance(value, float) else "" if value is None else str(value)


def _run(report: BenchReport) -> str:
    noise = noise_of(report.timings)
    said = f"Two timings of the same differed by {100 * noise[0]:.1f} to {100 * noise[1]:.1f} %. " if noise else ""
    return f"<p>{said}Seed {report.seed}, {report.seconds:.0f} s, {escape(report.date)}.</p>"
