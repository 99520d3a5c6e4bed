"""Draws the plots of a benchmark: time against size, speed-ups, the roofline, memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from opsmith.benchmark.result import Timing
from opsmith.report.bench.grid import Row, Table
from opsmith.report.plot import BARS, FRAME, Bar, Group, Point, Series, bar_plot, point_plot
from opsmith.report.scale import log_scale
from opsmith.report.units import count_of, duration, percent, ratio_text, size, verdict_text, with_prefix

__all__ = ["memory_plot", "number_of", "ratio_plot", "roof_plot", "time_plot", "tip"]

_X, _Y = (FRAME.left, FRAME.right), (FRAME.bottom, FRAME.top)
# A competitor has the same colour and mark in every plot, whatever else is there.
_NUMBERS = {
    "opsmith": 0,
    "operator": 0,
    "eager": 1,
    "compiled": 2,
    "reduce-overhead": 3,
    "max-autotune": 4,
    "graph": 5,
    "eager graph": 6,
}
_COLOURS = 10


def number_of(name: str, others: Sequence[str]) -> int:
    """Return a competitor's number among the colours and marks."""
    if name in _NUMBERS:
        return _NUMBERS[name]
    named = [other for other in others if other not in _NUMBERS]
    first = len(set(_NUMBERS.values()))
    return first + named.index(name) % (_COLOURS - first)


def time_plot(table: Table, *, standalone: bool = False) -> Markup:
    """Time of a call against the bytes that it must move, in decades; below the dotted line no call can be.

    A `standalone` plot is a picture with a style and a legend of its own.
    """
    series = _series(table, _middle, has_line=True)
    limit = sorted(
        (float(row.own.bytes_moved), _least_s(row.own)) for row in table.rows if row.own and _least_s(row.own)
    )
    ends = [end for timing in table.timings if timing.time for end in (timing.time.low, timing.time.high)]
    return point_plot(
        "time of a call against its size",
        series,
        log_scale(_xs(series), _X),
        log_scale([*ends, *(seconds for _, seconds in limit)], _Y),
        write_x=_bytes,
        write_y=duration,
        x_label="bytes in and out",
        limit=limit,
        beyond="below",
        standalone=standalone,
        has_legend=standalone,
    )


def roof_plot(table: Table, limits: Mapping[str, Any]) -> tuple[Markup, str]:
    """Return the roofline and its title: operations a second against operations a byte, else bytes a second against bytes.

    PyTorch counts the operations of matrix products and the like alone; what has none of those is bound by its bytes.
    """
    copy = float(limits.get("copy_bytes_s") or 0.0)
    rates = limits.get("matmul_flops_s") or {}
    rate = float(rates.get(table.dtype) or rates.get("float32") or 0.0)
    if any(timing.flops for timing in table.timings) and copy and rate:
        return _roofline(table, copy, rate), "Roofline, FLOP/s"
    series = _series(table, lambda timing: timing.bytes_moved / _middle(timing))
    x = log_scale(_xs(series), _X)
    plot = point_plot(
        "bandwidth reached",
        series,
        x,
        log_scale([*_ys(series), *([copy] if copy else [])], _Y),
        write_x=_bytes,
        write_y=lambda number: with_prefix(number, "B/s"),
        x_label="bytes in and out",
        limit=[(x.low, copy), (x.high, copy)] if copy else [],
        beyond="above",
    )
    return plot, "Bandwidth"


def ratio_plot(table: Table, *, standalone: bool = False) -> Markup:
    """How many times as fast the operator is as each competitor, as bars from 1; pale if there is no difference."""
    verdicts = [verdict for row in table.rows for name in table.others if (verdict := row.verdict(name)) is not None]
    ends = [end for verdict in verdicts for end in (verdict.ratio.low, verdict.ratio.high)]
    x = log_scale([*ends, 0.8, 1.25], BARS, margin=0.04)

    def bar(row: Row, name: str) -> Bar | None:
        if (verdict := row.verdict(name)) is None:
            return None
        one, middle = x.at(1.0), x.at(verdict.ratio.middle)
        return Bar(
            name,
            number_of(name, table.others),
            tip(table, row, name),
            round(min(one, middle), 1),
            round(max(abs(middle - one), 1), 1),
            f"{verdict.ratio.middle:.2f}x",
            verdict.kind,
            (round(x.at(verdict.ratio.low), 1), round(x.at(verdict.ratio.high), 1)),
        )

    ticks = [(x.at(tick), f"{tick:g}x") for tick in x.ticks()]
    return bar_plot(
        "times as fast", _groups(table, table.others, bar), ticks=ticks, one=x.at(1.0), standalone=standalone
    )


def memory_plot(table: Table) -> Markup | None:
    """Memory that a call needs beside its inputs, as bars that fill the plot at each size; None if none was seen."""
    if not any(timing.peak_bytes for timing in table.timings):
        return None

    def bar(row: Row, name: str) -> Bar | None:
        timing = row.timings.get(name)
        if timing is None or timing.peak_bytes is None:
            return None
        most = max(other.peak_bytes or 0 for other in row.timings.values())
        width = round(max((BARS[1] - BARS[0]) * timing.peak_bytes / max(most, 1), 1), 1)
        number = number_of(name, table.others)
        return Bar(name, number, tip(table, row, name), BARS[0], width, size(timing.peak_bytes))

    return bar_plot("memory of a call", _groups(table, (table.own, *table.others), bar))


def tip(table: Table, row: Row, name: str) -> str:
    """Return what a mark says of itself."""
    timing = row.timings[name]
    lines = [f"{name}, {row.workload}"]
    if timing.time is not None:
        time = timing.time
        lines.append(f"{duration(time.middle)}, 95 % in [{duration(time.low)}, {duration(time.high)}]")
    if timing.wall is not None and timing.wall != timing.time:
        lines.append(f"{duration(timing.wall.middle)} by the clock")
    if timing.kernel_s and timing.kernels:
        lines.append(f"{duration(timing.kernel_s)} in {count_of(timing.kernels, 'kernel')}")
    if (verdict := row.verdict(name)) is not None:
        lines.append(f"{table.own} against it: {verdict_text(verdict)}")
        if verdict.kind == "equal":
            lines.append(f"(measured: {ratio_text(verdict)})")
    if timing.share is not None:
        lines.append(f"{percent(timing.share)} of the machine's limit ({timing.bound})")
    if timing.peak_bytes:
        lines.append(f"{size(timing.peak_bytes)} of memory")
    return "\n".join(lines)


def _roofline(table: Table, copy: float, rate: float) -> Markup:
    series = _series(table, lambda t: t.flops / _middle(t), lambda t: t.flops / t.bytes_moved)
    x = log_scale([*_xs(series), rate / copy], _X, least=1000)
    knee = min(max(rate / copy, x.low), x.high)
    return point_plot(
        "roofline",
        series,
        x,
        log_scale([*_ys(series), rate], _Y),
        write_x=lambda number: f"{number:g}",
        write_y=lambda number: with_prefix(number, ""),
        x_label="operations a byte",
        limit=[(x.low, min(rate, copy * x.low)), (knee, rate), (x.high, rate)],
        beyond="above",
    )


def _series(
    table: Table,
    value: Callable[[Timing], float],
    x: Callable[[Timing], float] = lambda timing: timing.bytes_moved,
    *,
    has_line: bool = False,
) -> list[Series]:
    """Return each competitor's points, the operator's last: on top of the others. Times have intervals and a line."""
    found = []
    for name in (*table.others, table.own):
        points = []
        for row in table.rows:
            timing = row.timings.get(name)
            if timing is not None and timing.time is not None and timing.bytes_moved:
                ends = (timing.time.low, timing.time.high) if has_line else None
                points.append(Point(x(timing), value(timing), tip(table, row, name), ends))
        if points:
            points.sort(key=lambda point: point.x)
            found.append(Series(name, number_of(name, table.others), points, has_line))
    return found


def _groups(table: Table, names: Sequence[str], bar: Callable[[Row, str], Bar | None]) -> list[Group]:
    return [
        Group(row.workload, [found for name in names if (found := bar(row, name)) is not None]) for row in table.rows
    ]


def _xs(series: Sequence[Series]) -> list[float]:
    return [point.x for one in series for point in one.points]


def _ys(series: Sequence[Series]) -> list[float]:
    return [point.y for one in series for point in one.points]


def _bytes(number: float) -> str:
    return with_prefix(number, "B")


def _middle(timing: Timing) -> float:
    return timing.time.middle if timing.time is not None else 0.0


def _least_s(timing: Timing) -> float:
    """Return the least time that the machine allows, from the share of the limit that is reached."""
    return timing.share * _middle(timing) if timing.share is not None and timing.bytes_moved else 0.0
