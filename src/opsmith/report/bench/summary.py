"""Summarizes one element type and phase in a few words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from opsmith.benchmark.statistics import Verdict
from opsmith.report.bench.grid import Table
from opsmith.report.units import percent

__all__ = ["Summary", "summary_of"]


@dataclass(frozen=True)
class Summary:
    """The figure that matters most, what it is, and lines that explain and complete it."""

    figure: str
    kind: Literal["faster", "slower", "equal", "wrong"]
    lines: tuple[str, ...]


def summary_of(table: Table) -> Summary:
    """Return what a table comes to: against the reference, against the fastest competitor, against the machine's limit."""
    if any(row.own is not None and row.own.is_wrong for row in table.rows):
        return Summary("wrong", "wrong", ("results or figures are wrong",))
    if all(row.own is None or row.own.time is None for row in table.rows):
        return Summary("–", "equal", ("not timed",))
    baseline = "eager" if "eager" in table.others else next(iter(table.others), "")
    verdicts = [verdict for row in table.rows if (verdict := row.verdict(baseline)) is not None]
    figure, kind = _in_words(verdicts)
    lines = [f"as fast as {baseline}" if kind != "equal" else f"from {baseline}"] if verdicts else []
    fastest = [verdict for row in table.rows if (verdict := _against_fastest(table, row.workload)) is not None]
    if len(table.others) > 1 and fastest:
        text, fastest_kind = _in_words(fastest)
        as_fast = "from" if fastest_kind == "equal" else "as fast as"
        lines.append(f"{text} {as_fast} the fastest of the others")
    shares = [row.own.share for row in table.rows if row.own is not None and row.own.share is not None]
    if shares:
        lines.append(f"up to {percent(max(shares))} of the machine's limit")
    return Summary(figure, kind, tuple(lines))


def _against_fastest(table: Table, workload: str) -> Verdict | None:
    """Return the verdict against whichever competitor is the fastest at a size."""
    row = next(row for row in table.rows if row.workload == workload)
    times = {
        name: timing.time.middle
        for name in table.others
        if (timing := row.timings.get(name)) is not None and timing.time is not None and not timing.is_wrong
    }
    return row.verdict(min(times, key=lambda name: times[name])) if times else None


def _in_words(verdicts: Sequence[Verdict]) -> tuple[str, Literal["faster", "slower", "equal"]]:
    """Return the range of some ratios; a difference within the noise counts as none."""
    ratios = [1.0 if verdict.kind == "equal" else verdict.ratio.middle for verdict in verdicts]
    if all(verdict.kind == "equal" for verdict in verdicts):
        return "no difference", "equal"
    low, high = f"{_digits(min(ratios))}x", f"{_digits(max(ratios))}x"
    kind: Literal["faster", "slower"] = "slower" if min(ratios) < 1 else "faster"
    if min(ratios) == 1.0:
        return f"up to {high}", kind
    return (low if low == high else f"{low} to {high}"), kind


def _digits(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 9.95 else f"{ratio:.1f}" if ratio >= 1.95 else f"{ratio:.2f}"
