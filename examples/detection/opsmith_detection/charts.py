"""Line charts as SVG, for a page that needs no script and no other file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Chart", "Line", "line_chart"]

_WIDTH, _HEIGHT = 560, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 8, 10, 26  # margins
_POINTS = 300  # of a line, at most


@dataclass(frozen=True)
class Line:
    """A curve of a chart, in the chart's coordinates."""

    name: str
    points: str  # as an SVG polyline has them
    last: str


@dataclass(frozen=True)
class Chart:
    """What a template draws: lines, and ticks with their places."""

    title: str
    lines: list[Line]
    rows: list[tuple[float, str]]  # y and text of the ticks
    columns: list[tuple[float, str]]  # x and text
    width: int = _WIDTH
    height: int = _HEIGHT
    left: int = _LEFT
    right: int = _WIDTH - _RIGHT
    bottom: int = _HEIGHT - _BOTTOM


def line_chart(
    title: str, series: Mapping[str, Sequence[tuple[float, float]]], *, top: float | None = None
) -> Chart | None:
    """Lay out curves of (step, value) from zero to the highest value, or to `top`; None if there is nothing to draw.

    Of long curves each point is the mean of several.
    """
    series = {name: _thinned(points) for name, points in series.items() if points}
    if not series:
        return None
    values = [value for points in series.values() for _, value in points]
    # What stands out in the first steps would press all others to the ground.
    highest = top or max(sorted(values)[int(0.98 * (len(values) - 1))], 1e-12)
    end = max(step for points in series.values() for step, _ in points)
    x_scale = (_WIDTH - _LEFT - _RIGHT) / max(end, 1e-12)
    y_scale = (_HEIGHT - _TOP - _BOTTOM) / highest

    def place(point: tuple[float, float]) -> str:
        height = min(point[1] * y_scale, _HEIGHT - _BOTTOM)
        return f"{_LEFT + point[0] * x_scale:.1f},{_HEIGHT - _BOTTOM - height:.1f}"

    return Chart(
        title,
        [Line(name, " ".join(map(place, points)), f"{points[-1][1]:.3g}") for name, points in series.items()],
        [(_HEIGHT - _BOTTOM - value * y_scale, f"{value:.4g}") for value in _ticks(highest)],
        [(_LEFT + step * x_scale, f"{step:,.0f}") for step in _ticks(end)],
    )


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    every = math.ceil(len(points) / _POINTS)
    parts = [points[at : at + every] for at in range(0, len(points), every)]
    return [(part[-1][0], math.fsum(value for _, value in part) / len(part)) for part in parts]


def _ticks(end: float) -> list[float]:
    """Return up to six round numbers from 0 to `end`."""
    power = 10 ** math.floor(math.log10(end))
    step = next(s for s in (0.1 * power, 0.2 * power, 0.5 * power, power, 2 * power, 5 * power) if end / s <= 5)
    return [step * i for i in range(int(end / step + 1e-9) + 1)]
