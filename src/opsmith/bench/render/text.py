"""How a benchmark is shown: a table in the terminal, and Markdown for a README."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from opsmith.bench.result import BenchReport, Timing
from opsmith.bench.statistics import Verdict

__all__ = ["duration", "markdown", "report_lines", "verdict_text"]

_BAR = "▇"
_BAR_EMPTY = "▁"
_BAR_LENGTH = 5


def report_lines(report: BenchReport, *, width: int = 120) -> Iterator[str]:
    """Yield the lines of a report: a table for each element type and phase, then what could not be timed and why."""
    rate = report.limits.get("copy_bytes_s", 0.0)
    for index, ((dtype, phase), timings) in enumerate(_parts(report)):
        title = f"{report.operator}, {dtype}, {report.machine.name}, {phase}"
        limit = f"limit: copy bandwidth {rate / 1e9:,.0f} GB/s, measured here" if index == 0 else ""
        yield f"{title}{' ' * max(2, width - len(title) - len(limit))}{limit}".rstrip()
        yield from _table(list(timings))
        yield ""
    yield from _problems(report)
    for text in report.warnings:
        yield f"! {text}"
    yield (
        f"ratios: how many times as fast {report.operator} is, median of rounds in turn with its 95 % interval · "
        f"{report.machine.threads} CPU threads · seed {report.seed} · {report.seconds:.0f} s"
    )


def markdown(report: BenchReport) -> str:
    """Return the report as a Markdown table, with the machine and the date."""
    lines = [
        f"**{report.operator}** ({report.machine.name}, {report.machine.threads} CPU threads, torch {report.machine.torch}, "
        f"{report.date[:10]}; median and 95 % interval of rounds in turn)",
        "",
    ]
    for (dtype, phase), timings in _parts(report):
        rows = list(_rows(list(timings)))
        head, *body = rows
        lines += [f"{dtype}, {phase}:", "", _row(head), _row(["---"] * len(head)), *map(_row, body), ""]
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it, with three digits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{_three_digits(seconds / size)} {unit}"
    return f"{_three_digits(seconds * 1e9)} ns"


def verdict_text(verdict: Verdict) -> str:
    """Return a verdict for a table's cell."""
    if verdict.kind == "equal":
        return "no difference"
    return f"{verdict.ratio.middle:.2f}x [{verdict.ratio.low:.2f}, {verdict.ratio.high:.2f}]"


def _parts(report: BenchReport) -> Iterator[tuple[tuple[str, str], Iterator[Timing]]]:
    return groupby(
        sorted(report.timings, key=lambda t: (_place(report, t.dtype), _PHASES.get(t.phase, 9))),
        key=lambda timing: (timing.dtype, timing.phase),
    )


_PHASES = {"forward": 0, "backward": 1, "both": 2}


def _place(report: BenchReport, dtype: str) -> int:
    return list(dict.fromkeys(timing.dtype for timing in report.timings)).index(dtype)


def _table(timings: list[Timing]) -> Iterator[str]:
    rows = list(_rows(timings))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "   " + "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _rows(timings: list[Timing]) -> Iterator[list[str]]:
    """Yield the head and a row for each size: the operator's time, the others' ratios, the share of the limit."""
    names = list(dict.fromkeys(timing.competitor for timing in timings))
    operator, *others = names
    yield ["", operator, *others, "of the limit", "memory"]
    for workload in dict.fromkeys(timing.workload for timing in timings):
        by_name = {timing.competitor: timing for timing in timings if timing.workload == workload}
        own = by_name.get(operator)
        yield [
            workload,
            duration(own.time.middle) if own is not None and own.time is not None else "–",
            *(_against(by_name.get(name)) for name in others),
            _limit(own),
            _memory(own, by_name.get("eager")),
        ]


def _against(timing: Timing | None) -> str:
    if timing is None or timing.verdict is None:
        return "–"
    return verdict_text(timing.verdict)


def _limit(timing: Timing | None) -> str:
    if timing is None or timing.share is None:
        return "–"
    full = min(_BAR_LENGTH, round(timing.share * _BAR_LENGTH))
    return f"{_BAR * full}{_BAR_EMPTY * (_BAR_LENGTH - full)} {timing.share:>4.0%}  {timing.bound}"


def _memory(own: Timing | None, eager: Timing | None) -> str:
    if own is None or own.peak_bytes is None:
        return "–"
    text = f"{own.peak_bytes / 1e6:,.0f} MB"
    if eager is not None and eager.peak_bytes:
        text += f" ({own.peak_bytes / eager.peak_bytes:.2f} of eager's)"
    return text


def _problems(report: BenchReport) -> Iterator[str]:
    by_error: dict[tuple[str, str], list[str]] = {}
    for timing in report.timings:
        if timing.error:
            place = f"{timing.dtype}, {timing.workload}, {timing.phase}"
            by_error.setdefault((timing.competitor, timing.error), []).append(place)
    for (competitor, error), places in by_error.items():
        sign = "✗" if error.startswith("wrong") else "–"
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        yield f"{sign} {competitor} ({places[0]}{more}): {error}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _three_digits(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"
