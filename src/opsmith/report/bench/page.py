"""Draws a benchmark as an HTML page: one file that needs no other and no network, with plots to point at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from opsmith.benchmark.result import BenchReport
from opsmith.report.bench.grid import (
    Table,
    machine_words,
    noise_of,
    problem_text,
    problems_of,
    remarks_of,
    tables_of,
)
from opsmith.report.bench.plots import memory_plot, number_of, ratio_plot, roof_plot, time_plot
from opsmith.report.bench.summary import Summary, summary_of
from opsmith.report.page import Link, page
from opsmith.report.units import count_of, duration, with_prefix

__all__ = ["Section", "reports_as_html", "section_of"]


@dataclass(frozen=True)
class Panel:
    """One element type and phase. `legend` has names and their numbers, `plots` a title, an explanation and a picture."""

    anchor: str
    table: Table
    summary: Summary
    legend: tuple[tuple[str, int], ...]
    plots: tuple[tuple[str, str, Markup], ...]
    has_memory: bool


@dataclass(frozen=True)
class Section:
    """One operator, as the template `bench_section` takes it."""

    anchor: str
    operator: str
    machine: str
    date: str
    warnings: tuple[str, ...]
    wrong: tuple[str, ...]
    panels: tuple[Panel, ...]
    notes: tuple[str, ...]
    facts: Mapping[str, str]
    run: str

    @property
    def phases(self) -> int:
        """How many tiles stand beside each other."""
        return len({panel.table.phase for panel in self.panels})


def reports_as_html(reports: Iterable[BenchReport]) -> str:
    """Return a page with all reports."""
    listed = list(reports)
    links = [Link(f"op{number}", report.operator) for number, report in enumerate(listed)]
    return page(
        "bench",
        title=f"opsmith bench: {', '.join(report.operator for report in listed)}",
        tool="opsmith bench",
        kind="",
        headline=_headline(listed),
        links=links,
        sections=[section_of(report, link.anchor) for report, link in zip(listed, links, strict=True)],
        footer="",
    )


def section_of(report: BenchReport, anchor: str) -> Section:
    """Return a report as the template takes it; ids in it begin with `anchor`."""
    problems = problems_of(report.timings)
    notes = [f"– {problem_text(problem)}" for problem in problems if not problem.is_wrong]
    notes += [f"* {text}" for text in remarks_of(report.timings)]
    return Section(
        anchor,
        report.operator,
        machine_words(report),
        report.date,
        report.warnings,
        tuple(problem_text(problem) for problem in problems if problem.is_wrong),
        tuple(_panel(report, table, f"{anchor}-{number}") for number, table in enumerate(tables_of(report.timings))),
        tuple(notes),
        {name: value for name, value in _facts(report) if value},
        _run(report),
    )


def _headline(reports: Sequence[BenchReport]) -> str:
    wrong = [report.operator for report in reports if not report.ok]
    if wrong:
        return f"Do not trust yet: {', '.join(wrong)}"
    return reports[0].operator if len(reports) == 1 else count_of(len(reports), "operator")


def _panel(report: BenchReport, table: Table, anchor: str) -> Panel:
    names = (table.own, *table.others)
    legend = tuple((name, number_of(name, table.others)) for name in names)
    has_memory = any(timing.peak_bytes is not None for timing in table.timings)
    plots = tuple(_plots(report, table)) if table.timings else ()
    return Panel(anchor, table, summary_of(table), legend, plots, has_memory)


def _plots(report: BenchReport, table: Table) -> Iterator[tuple[str, str, Markup]]:
    yield "Time of a call", "bars: 95 % interval; dotted: the machine's limit", time_plot(table)
    yield f"How many times as fast {table.own} is", "pale: no difference beyond noise", ratio_plot(table)
    roof, title = roof_plot(table, report.limits)
    yield title, "dotted: this machine's limit", roof
    if (memory := memory_plot(table)) is not None:
        yield "Memory of a call", "at its peak, without the inputs", memory


def _facts(report: BenchReport) -> Iterator[tuple[str, str]]:
    """Yield the names and values of all that a figure depends on; an empty value is not known."""
    machine, limits = report.machine, report.limits
    rates = limits.get("matmul_flops_s", {})
    yield "GPU" if machine.device == "cuda" else "processor", machine.name
    yield "driver", machine.driver
    yield "cores", f"{machine.cores}, {count_of(machine.threads, 'thread')} of PyTorch's"
    yield "torch", machine.torch
    yield "Python", machine.python
    yield "system", machine.system
    yield "copy", with_prefix(limits["copy_bytes_s"], "B/s") if limits.get("copy_bytes_s") else ""
    yield "matrix product", ", ".join(f"{with_prefix(rate, 'FLOP/s')} in {dtype}" for dtype, rate in rates.items())
    yield "smallest call", duration(limits["launch_s"]) if limits.get("launch_s") else ""
    for name, value in report.conditions.items():
        yield name.replace("_", " "), _in_words(value)


def _in_words(value: Any) -> str:
    """Return a condition as text: a mapping's items, a number with few digits."""
    if isinstance(value, Mapping):
        known = ((str(name).replace("_", " "), item) for name, item in value.items() if item is not None)
        return ", ".join(f"{name} {_in_words(item)}" for name, item in known)
    if isinstance(value, list | tuple):
        return ", ".join(map(_in_words, value))
    return f"{value:.3g}" if isinstance(value, float) else "" if value is None else str(value)


def _run(report: BenchReport) -> str:
    noise = noise_of(report.timings)
    differed = f"Repeated timings differed by {100 * noise[0]:.1f} to {100 * noise[1]:.1f} %. " if noise else ""
    return f"{differed}Seed {report.seed}, {report.seconds:.0f} s, {report.date}."
