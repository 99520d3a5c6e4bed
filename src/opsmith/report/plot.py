"""Draws plots as SVG: points by two axes, and bars in groups. Colours are the page's, and every mark says what it is.

A plotting library would make pages that follow no light or dark, are not read aloud, and are too large to be mailed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from markupsafe import Markup

from opsmith.report.page import fragment
from opsmith.report.scale import Scale

__all__ = ["BARS", "FRAME", "Bar", "Group", "Point", "Series", "bar_plot", "point_plot"]


@dataclass(frozen=True)
class Frame:
    """The size of a drawing of points, and where in it the axes lie."""

    width: int = 440
    height: int = 300
    left: int = 62
    right: int = 428
    top: int = 12
    bottom: int = 258


FRAME = Frame()
# Where bars begin, behind their names, and where the longest end, before their figures.
BARS = (112, 372)
_BAR, _BAR_STEP, _GROUP, _TICKS = 11, 17, 26, 20


@dataclass(frozen=True)
class Point:
    """A point, in the axes' numbers; `ends` is the interval of its value, `tip` what the mark says of itself."""

    x: float
    y: float
    tip: str
    ends: tuple[float, float] | None = None


@dataclass(frozen=True)
class Series:
    """Points of one colour and shape, `number` of ten, from left to right; `has_line` connects them."""

    name: str
    number: int
    points: Sequence[Point]
    has_line: bool = False


@dataclass(frozen=True)
class Bar:
    """A bar from `left`, `width` wide, and the ends of its interval, in the drawing's units; `value` stands behind it."""

    name: str
    number: int
    tip: str
    left: float
    width: float
    value: str
    kind: str = ""
    ends: tuple[float, float] | None = None


@dataclass(frozen=True)
class Group:
    """Bars below a title."""

    title: str
    bars: Sequence[Bar] = field(default_factory=tuple)


@dataclass(frozen=True)
class _Mark:
    tip: str
    left: float
    top: float
    whisker: str


@dataclass(frozen=True)
class _Drawn:
    name: str
    number: int
    line: str
    marks: tuple[_Mark, ...]


def point_plot(
    label: str,
    series: Sequence[Series],
    x: Scale,
    y: Scale,
    *,
    write_x: Callable[[float], str],
    write_y: Callable[[float], str],
    x_label: str,
    limit: Sequence[tuple[float, float]] = (),
    beyond: Literal["above", "below", ""] = "",
    standalone: bool = False,
    has_legend: bool = False,
) -> Markup:
    """Return a plot of points. `limit` is a line; what lies `beyond` it, where no point can be, is shaded.

    A legend in the plot stands in its lower right corner.
    """
    places = [(x.at(left), y.at(top)) for left, top in limit]
    edge = FRAME.bottom if beyond == "below" else FRAME.top
    shaded = f"{_path(places)} L{places[-1][0]:.1f} {edge} L{places[0][0]:.1f} {edge}Z" if places and beyond else ""
    return fragment(
        "points",
        label=label,
        frame=FRAME,
        x_ticks=[(round(x.at(tick), 1), _bare(write_x(tick))) for tick in x.ticks()],
        y_ticks=[(round(y.at(tick), 1), _bare(write_y(tick))) for tick in y.ticks()],
        x_label=x_label,
        roof=_path(places),
        beyond=shaded,
        series=[_drawn(one, x, y) for one in series],
        standalone=standalone,
        has_legend=has_legend,
    )


def bar_plot(
    label: str,
    groups: Sequence[Group],
    *,
    ticks: Sequence[tuple[float, str]] = (),
    one: float | None = None,
    standalone: bool = False,
) -> Markup:
    """Return a plot of bars. `ticks` are lines behind them with their texts, `one` where the ratio of 1 lies."""
    titles, bars, top = [], [], _TICKS if ticks else 0
    for group in groups:
        if not group.bars:
            continue
        titles.append((top + 13, group.title))
        bars += [(top + _GROUP - 4 + _BAR_STEP * number, bar) for number, bar in enumerate(group.bars)]
        top += _GROUP + _BAR_STEP * len(group.bars)
    return fragment(
        "bars",
        label=label,
        width=FRAME.width,
        height=top + 6,
        bottom=top + 4,
        start=BARS[0],
        end=BARS[1],
        thickness=_BAR,
        step=_BAR_STEP,
        ticks=[(round(at, 1), text) for at, text in ticks],
        one=None if one is None else round(one, 1),
        titles=titles,
        bars=bars,
        standalone=standalone,
    )


def _drawn(series: Series, x: Scale, y: Scale) -> _Drawn:
    places = [(round(x.at(point.x), 1), round(y.at(point.y), 1)) for point in series.points]
    marks = tuple(
        _Mark(point.tip, left, top, _whisker(point, left, y))
        for point, (left, top) in zip(series.points, places, strict=True)
    )
    return _Drawn(series.name, series.number, _path(places) if series.has_line and len(places) > 1 else "", marks)


def _whisker(point: Point, left: float, y: Scale) -> str:
    if point.ends is None:
        return ""
    low, high = map(y.at, point.ends)
    caps = "".join(f"M{left - 3:.1f} {end:.1f}h6" for end in (low, high))
    return f"M{left:.1f} {low:.1f}V{high:.1f}{caps}"


def _path(places: Sequence[tuple[float, float]]) -> str:
    return "M" + " L".join(f"{left:.1f} {top:.1f}" for left, top in places) if places else ""


def _bare(text: str) -> str:
    """Return a tick's text without digits that say nothing: "10.0 us" is "10 us"."""
    number, _, unit = text.partition(" ")
    return f"{float(number.replace(',', '')):g} {unit}".rstrip()
