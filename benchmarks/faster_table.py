"""The table of docs/guides/faster.md: a row for each step of examples/faster, from what faster_steps.py wrote."""

from __future__ import annotations

import json
from pathlib import Path

from opsmith.benchmark.as_json import reports_from
from opsmith.benchmark.result import BenchReport
from opsmith.report.bench.grid import Row, machine_words, problem_text, problems_of, tables_of
from opsmith.report.bench.markdown import limit_cell, ratio_cell, time_cell
from opsmith.report.markdown import row_markdown

__all__ = ["faster_figures"]

RESULTS = Path(__file__).resolve().parent / "results" / "faster_cpu.json"


def faster_figures() -> str:
    """Return a row for each step: its time, how many times as fast as the step before and as PyTorch it is, its limit."""
    if not RESULTS.is_file():
        return "Nothing has been measured yet."
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    reports = reports_from(results)
    first, note = reports[0], results["how"]["note"]
    heads = ["step", "time", "against the step before", "against eager", "against compiled", "of the limit"]
    lines = [
        f"{_row(first).workload} in float32, {machine_words(first)}, {first.date[:10]}{note and f'; {note}'}. "
        "A row is a run of its own, and its ratios are formed within it.",
        "",
        row_markdown(heads),
        row_markdown(["---"] * len(heads)),
        *(_line(number, report) for number, report in enumerate(reports, start=1)),
    ]
    problems = dict.fromkeys(problem_text(problem) for report in reports for problem in problems_of(report.timings))
    return "\n".join([*lines, *([""] if problems else []), *(f"* {problem}" for problem in problems)])


def _row(report: BenchReport) -> Row:
    (table,) = tables_of(report.timings)
    (row,) = table.rows
    return row


def _line(number: int, report: BenchReport) -> str:
    row = _row(report)
    ratios = (ratio_cell(row, name) for name in ("before", "eager", "compiled"))
    return row_markdown(
        [f"{number}. `{report.operator.rpartition('.')[2]}`", time_cell(row.own), *ratios, limit_cell(row.own)]
    )
