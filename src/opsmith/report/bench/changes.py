"""Shows a comparison with an earlier report as text: a line for each size, and one for the overall result."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from opsmith.benchmark.compare import Change, Comparison
from opsmith.report.bench.grid import PHASE_WORDS
from opsmith.report.terminal import Cell, Style, aligned, plain
from opsmith.report.units import count_of, duration

__all__ = ["comparison_lines"]

_CLOCKS = {"device": "", "wall": ", by the clock"}


def comparison_lines(comparison: Comparison, earlier: str, *, style: Style = plain) -> Iterator[str]:
    """Yield how operators compare with an earlier report; `earlier` names it."""
    yield style(f"since {earlier}", "head")
    for operator, changes in groupby(comparison.changes, key=lambda change: change.operator):
        rows: list[list[Cell]] = [[(operator, ""), ("then", "dim"), ("now", "dim"), ("takes", "dim")]]
        rows += [[_label(c), (duration(c.before_s), ""), (duration(c.now_s), ""), _verdict(c)] for c in changes]
        yield from aligned(rows, style)
    for sign, cases, what in (
        ("✗", comparison.lost, "had a time and now fails"),
        ("–", comparison.missing, "has no time in the new report"),
        ("–", comparison.new, "has no time in the earlier report"),
    ):
        yield from (style(f"{sign} {case}: {what}", "wrong" if sign == "✗" else "dim") for case in cases)
    yield from (style(f"! {warning}", "warning") for warning in comparison.warnings)
    yield from _totals(comparison, style)


def _label(change: Change) -> Cell:
    phase = PHASE_WORDS.get(change.phase, change.phase)
    return ", ".join(part for part in (change.dtype, phase, change.workload) if part) + _CLOCKS[change.clock], ""


def _verdict(change: Change) -> Cell:
    times = change.times_as_long
    if change.kind == "equal":
        return f"no difference (noise {100 * change.noise:.0f} %)", "dim"
    return f"{times.middle:.2f}x as long [{times.low:.2f}, {times.high:.2f}]: {change.kind}", change.kind


def _totals(comparison: Comparison, style: Style) -> Iterator[str]:
    kinds = [change.kind for change in comparison.changes]
    slower, faster = kinds.count("slower"), kinds.count("faster")
    text = f"{slower} of {count_of(len(kinds), 'timing')} slower, {faster} faster, beyond the noise"
    yield style(text, "faster" if comparison.ok else "wrong")
    if slower and comparison.runs == 1:
        yield style("! one process per report: another process may differ as much; --runs 5 tells", "warning")
    if any(change.against for change in comparison.changes):
        yield style("times relative to eager's in the same run, so a slower machine does not count", "dim")
