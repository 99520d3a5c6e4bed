"""Plots as SVG: time against size, speed-ups, the roofline, memory. Colours are the page's, and every mark says what it is.

They are drawn here and not by a plotting library, because then the page needs none: it stays small enough to be sent by
mail, follows the reader's light or dark, prints, and is read aloud.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from opsmith.benchmark.render.grid import Row, Table, ratio_text, verdict_text
from opsmith.benchmark.render.scale import LogScale, log_scale
from opsmith.benchmark.render.units import duration, percent, size, with_prefix
from opsmith.benchmark.result import Timing

__all__ = ["memory_plot", "number_of", "ratio_plot", "roof_plot", "swatch", "time_plot", "tip"]

_WIDTH, _HEIGHT = 440, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 428, 12, 258
# Bars: where they begin and end, behind names and before figures.
_BARS, _BARS_END, _BAR, _BAR_STEP, _GROUP = 112, 372, 11, 17, 26
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
_SHAPES = (
    '<circle r="5"/>',
    '<rect x="-4.2" y="-4.2" width="8.4" height="8.4"/>',
    '<path d="M0-5.6 5 3.6H-5Z"/>',
    '<path d="M0-6 6 0 0 6-6 0Z"/>',
    '<path d="M0 5.6 5-3.6H-5Z"/>',
    '<path d="M-5-1.5h3.5V-5h3v3.5H5v3H1.5V5h-3V1.5H-5Z"/>',
    '<path d="M-5-3-3-5 0-2 3-5 5-3 2 0 5 3 3 5 0 2-3 5-5 3-2 0Z"/>',
    '<path d="M0-5.6 5.4-1.7 3.3 4.6H-3.3L-5.4-1.7Z"/>',
    '<rect x="-6" y="-2.2" width="12" height="4.4"/>',
    '<path d="M-1.8-6h3.6V6h-3.6Z"/>',
)


def number_of(name: str, others: Sequence[str]) -> int:
    """Return a competitor's number among the colours and marks."""
    if name in _NUMBERS:
        return _NUMBERS[name]
    named = [other for other in others if other not in _NUMBERS]
    first = len(set(_NUMBERS.values()))
    return first + named.index(name) % (_COLOURS - first)


def swatch(number: int) -> str:
    """Return a competitor's mark for a legend."""
    return f'<svg class="swatch k{number}" viewBox="-7 -7 14 14" aria-hidden="true">{_SHAPES[number]}</svg>'


def time_plot(table: Table) -> str:
    """Time of a call against the bytes that it must move, in decades; below the dotted line no call can be."""
    points = _points(table, _middle)
    limit = [(float(row.own.bytes_moved), _least_s(row.own)) for row in table.rows if row.own and _least_s(row.own)]
    ends = [end for timing in table.timings if timing.time for end in (timing.time.low, timing.time.high)]
    x = log_scale([place for found in points.values() for _, place, _ in found], (_LEFT, _RIGHT))
    y = log_scale([*ends, *(seconds for _, seconds in limit)], (_BOTTOM, _TOP))
    parts = [_axes(x, y, lambda b: with_prefix(b, "B"), duration, "bytes in and out")]
    if limit:
        line = [(x.at(place), y.at(seconds)) for place, seconds in sorted(limit)]
        floor = f"{_path(line)} L{line[-1][0]:.1f} {_BOTTOM} L{line[0][0]:.1f} {_BOTTOM}Z"
        parts.append(f'<path class="beyond" d="{floor}"/><path class="roof" d="{_path(line)}"/>')
    return _svg(_series(table, points, x, y), parts, "time of a call against its size", _HEIGHT)


def roof_plot(table: Table, limits: Mapping[str, Any]) -> tuple[str, str]:
    """Return the roofline and its title: operations a second against operations a byte, else bytes a second against bytes.

    PyTorch counts the operations of matrix products and the like alone; what has none of those is bound by its bytes.
    """
    copy = float(limits.get("copy_bytes_s") or 0.0)
    rates = limits.get("matmul_flops_s") or {}
    rate = float(rates.get(table.dtype) or rates.get("float32") or 0.0)
    if any(timing.flops for timing in table.timings) and copy and rate:
        points = _points(table, lambda t: t.flops / _middle(t), lambda t: t.flops / t.bytes_moved)
        found = [pair for series in points.values() for pair in series]
        x = log_scale([*(place for _, place, _ in found), rate / copy], (_LEFT, _RIGHT), least=1000)
        y = log_scale([*(value for _, _, value in found), rate], (_BOTTOM, _TOP))
        roof = [(x.low, min(rate, copy * x.low)), (min(max(rate / copy, x.low), x.high), rate), (x.high, rate)]
        axes = _axes(x, y, lambda n: f"{n:g}", lambda n: with_prefix(n, ""), "operations a byte")
        return _svg(_series(table, points, x, y), [axes, _roof(x, y, roof)], "roofline", _HEIGHT), "Roofline, FLOP/s"
    points = _points(table, lambda timing: timing.bytes_moved / _middle(timing))
    found = [pair for series in points.values() for pair in series]
    x = log_scale([place for _, place, _ in found], (_LEFT, _RIGHT))
    y = log_scale([*(value for _, _, value in found), *([copy] if copy else [])], (_BOTTOM, _TOP))
    parts = [_axes(x, y, lambda b: with_prefix(b, "B"), lambda n: with_prefix(n, "B/s"), "bytes in and out")]
    if copy:
        parts.append(_roof(x, y, [(x.low, copy), (x.high, copy)]))
    return _svg(_series(table, points, x, y), parts, "bandwidth reached", _HEIGHT), "Bandwidth"


def ratio_plot(table: Table) -> str:
    """How many times as fast the operator is as each competitor, as bars from 1; pale where there is no difference."""
    judged = [(row, name, row.verdict(name)) for row in table.rows for name in table.others]
    ratios = [verdict.ratio for _, _, verdict in judged if verdict is not None]
    ends = [end for ratio in ratios for end in (ratio.low, ratio.high)]
    x = log_scale([*ends, 0.8, 1.25], (_BARS, _BARS_END), room=0.04)

    def bar(row: Row, name: str, y: float) -> str:
        verdict = row.verdict(name)
        if verdict is None:
            return ""
        one, middle = x.at(1.0), x.at(verdict.ratio.middle)
        low, high, centre = x.at(verdict.ratio.low), x.at(verdict.ratio.high), y + _BAR / 2
        return (
            f'<rect class="bar {verdict.kind}" x="{min(one, middle):.1f}" y="{y}" width="{max(abs(middle - one), 1):.1f}" '
            f'height="{_BAR}"/><path class="whisker" d="M{low:.1f} {centre}H{high:.1f}M{low:.1f} {centre - 3}v6'
            f'M{high:.1f} {centre - 3}v6"/><text class="value {verdict.kind}" x="{_BARS_END + 6}" y="{y + 9.5}">'
            f"{verdict.ratio.middle:.2f}x</text>"
        )

    rules = "".join(_rule(x.at(tick), f"{tick:g}x") for tick in x.ticks())
    return _bars(
        table, table.others, bar, "times as fast", f'{rules}<path class="one" d="M{x.at(1.0):.1f} 14V{{bottom}}"/>'
    )


def memory_plot(table: Table) -> str | None:
    """Memory that a call needs beside its inputs, as bars that fill the plot at each size; None where none was seen."""
    if not any(timing.peak_bytes for timing in table.timings):
        return None

    def bar(row: Row, name: str, y: float) -> str:
        timing = row.timings.get(name)
        if timing is None or timing.peak_bytes is None:
            return ""
        most = max(other.peak_bytes or 0 for other in row.timings.values())
        width = max((_BARS_END - _BARS) * timing.peak_bytes / max(most, 1), 1)
        return (
            f'<rect class="bar" x="{_BARS}" y="{y}" width="{width:.1f}" height="{_BAR}"/>'
            f'<text class="value" x="{_BARS_END + 6}" y="{y + 9.5}">{size(timing.peak_bytes)}</text>'
        )

    return _bars(table, (table.own, *table.others), bar, "memory of a call", "", top=0)


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
        lines.append(f"{duration(timing.kernel_s)} in {timing.kernels} kernel{'' if timing.kernels == 1 else 's'}")
    if (verdict := row.verdict(name)) is not None:
        lines.append(f"{table.own} against it: {verdict_text(verdict)}")
        if verdict.kind == "equal":
            lines.append(f"(measured: {ratio_text(verdict)})")
    if timing.share is not None:
        lines.append(f"{percent(timing.share)} of the machine's limit ({timing.bound})")
    if timing.peak_bytes:
        lines.append(f"{size(timing.peak_bytes)} of memory")
    return "\n".join(lines)


# A point: its row, where it lies, and its value.
_Point = tuple[Row, float, float]


def _points(
    table: Table, value: Callable[[Timing], float], place: Callable[[Timing], float] = lambda timing: timing.bytes_moved
) -> dict[str, list[_Point]]:
    found: dict[str, list[_Point]] = {}
    for name in (*table.others, table.own):  # the operator last: on top of the others
        timings = [(row, row.timings[name]) for row in table.rows if name in row.timings]
        usable = [(row, timing) for row, timing in timings if timing.time is not None and timing.bytes_moved]
        found[name] = sorted(
            ((row, place(timing), value(timing)) for row, timing in usable), key=lambda point: point[1]
        )
    return {name: points for name, points in found.items() if points}


def _series(table: Table, points: Mapping[str, list[_Point]], x: LogScale, y: LogScale) -> Iterator[str]:
    """Yield each competitor's marks; intervals and a line through them where the values are times."""
    for name, found in points.items():
        places = [(x.at(place), y.at(value)) for _, place, value in found]
        number = number_of(name, table.others)
        times = all(row.timings[name].time and row.timings[name].time.middle == value for row, _, value in found)  # type: ignore[union-attr]
        line = f'<path class="line" d="{_path(places)}"/>' if times and len(places) > 1 else ""
        marks = "".join(
            _mark(tip(table, row, name), left, top, number, _whisker(row.timings[name], left, y) if times else "")
            for (row, _, _), (left, top) in zip(found, places, strict=True)
        )
        yield f'<g class="series k{number}" data-name="{escape(name, quote=True)}">{line}{marks}</g>'


def _mark(text: str, left: float, top: float, number: int, whisker: str) -> str:
    return (
        f'<g class="mark"><title>{escape(text)}</title>{whisker}'
        f'<g transform="translate({left:.1f} {top:.1f})"><circle class="reach" r="11"/>{_SHAPES[number]}</g></g>'
    )


def _whisker(timing: Timing, left: float, y: LogScale) -> str:
    if timing.time is None:
        return ""
    low, high = y.at(timing.time.low), y.at(timing.time.high)
    ends = "".join(f"M{left - 3:.1f} {end:.1f}h6" for end in (low, high))
    return f'<path class="whisker" d="M{left:.1f} {low:.1f}V{high:.1f}{ends}"/>'


def _bars(
    table: Table, names: Sequence[str], bar: Callable[[Row, str, float], str], label: str, behind: str, top: int = 20
) -> str:
    """Return a plot of bars in groups: one for each size, a bar for each competitor."""
    parts, y = [], float(top)
    for row in table.rows:
        known = [name for name in names if bar(row, name, y)]
        if not known:
            continue
        parts.append(f'<text class="group" x="0" y="{y + 13:.0f}">{escape(row.workload)}</text>')
        for place, name in enumerate(known):
            y_bar = y + _GROUP - 4 + _BAR_STEP * place
            parts.append(
                f'<g class="series k{number_of(name, table.others)}" data-name="{escape(name, quote=True)}"><g class="mark">'
                f"<title>{escape(tip(table, row, name))}</title>"
                f'<rect class="reach" x="0" y="{y_bar - 3}" width="{_WIDTH}" height="{_BAR_STEP}"/>'
                f'<text class="name" x="{_BARS - 8}" y="{y_bar + 9.5}">{escape(_short(name))}</text>'
                f"{bar(row, name, y_bar)}</g></g>"
            )
        y += _GROUP + _BAR_STEP * len(known)
    return _svg(iter(parts), [behind.replace("{bottom}", f"{y + 4:.0f}")], label, y + 6)


def _axes(
    x: LogScale, y: LogScale, write_x: Callable[[float], str], write_y: Callable[[float], str], label: str
) -> str:
    parts = [f'<path class="rule" d="M{_LEFT} {y.at(tick):.1f}H{_RIGHT}"/>' for tick in y.ticks()]
    parts += [f'<path class="rule" d="M{x.at(tick):.1f} {_TOP}V{_BOTTOM}"/>' for tick in x.ticks()]
    parts += [f'<text class="left" x="{_LEFT - 7}" y="{y.at(t) + 4:.1f}">{_bare(write_y(t))}</text>' for t in y.ticks()]
    parts += [f'<text class="below" x="{x.at(t):.1f}" y="{_BOTTOM + 17}">{_bare(write_x(t))}</text>' for t in x.ticks()]
    parts.append(f'<text class="below" x="{(_LEFT + _RIGHT) / 2}" y="{_BOTTOM + 36}">{label}</text>')
    return "".join(parts)


def _roof(x: LogScale, y: LogScale, line: Sequence[tuple[float, float]]) -> str:
    places = [(x.at(place), y.at(value)) for place, value in line]
    above = f"{_path(places)} L{places[-1][0]:.1f} {_TOP} L{places[0][0]:.1f} {_TOP}Z"
    return f'<path class="beyond" d="{above}"/><path class="roof" d="{_path(places)}"/>'


def _rule(left: float, text: str) -> str:
    return f'<path class="rule" d="M{left:.1f} 14V{{bottom}}"/><text class="below" x="{left:.1f}" y="10">{text}</text>'


def _svg(series: Iterator[str], behind: Sequence[str], label: str, height: float) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="group" aria-label="{escape(label, quote=True)}">'
        f"{''.join(behind)}{''.join(series)}</svg>"
    )


def _path(places: Sequence[tuple[float, float]]) -> str:
    return "M" + " L".join(f"{left:.1f} {top:.1f}" for left, top in places)


def _middle(timing: Timing) -> float:
    return timing.time.middle if timing.time is not None else 0.0


def _least_s(timing: Timing) -> float:
    """The least time that the machine allows, from the share of the limit that is reached."""
    return timing.share * _middle(timing) if timing.share is not None and timing.bytes_moved else 0.0


def _bare(text: str) -> str:
    """A round number has no digits behind the point: "10.0 us" is "10 us" beside an axis."""
    number, _, unit = text.partition(" ")
    return f"{float(number.replace(',', '')):g} {unit}".rstrip()


def _short(name: str) -> str:
    return name if len(name) <= 15 else f"{name[:14]}…"
