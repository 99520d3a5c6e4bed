"""An SVG of points, boxes, arrows, curves and labels, in colours for light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

__all__ = ["Drawing", "Plot", "Point"]

Point = tuple[float, float]

_WIDTH = 560  # a phone shows it at two thirds of that, which leaves letters of ten pixels
_HEAD = 7  # of an arrow
_SHAPE = 1.5  # the width of a small part by its height
# Colours by class: "a" and "b" are the two that a picture tells apart, "c" marks what happens to a few.
_STYLE = """
text { font: 15px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
.small { font-size: 13px } .muted { fill: #59636e } .strong { font-weight: 600 }
.start { text-anchor: start } .middle { text-anchor: middle } .end { text-anchor: end }
.line { stroke: #59636e; fill: none; stroke-width: 1.5 } .faint { stroke: #d1d9e0; fill: none }
.a { stroke: #0969da; fill: none; stroke-width: 2.5 } .a-fill { fill: #0969da } .a-text { fill: #0969da }
.b { stroke: #bc4c00; fill: none; stroke-width: 2.5 } .b-fill { fill: #bc4c00 } .b-text { fill: #bc4c00 }
.c { stroke: #1a7f37; fill: none; stroke-width: 2.5 } .c-fill { fill: #1a7f37 } .c-text { fill: #1a7f37 }
.line-fill { fill: #59636e } .node { fill: #f6f8fa; stroke: #59636e; stroke-width: 1.5 } .thin { stroke-width: 1.5 }
.dashed { stroke-dasharray: 5 4 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .muted { fill: #9198a1 }
  .line { stroke: #9198a1 } .faint { stroke: #3d444d } .line-fill { fill: #9198a1 }
  .a { stroke: #4493f8 } .a-fill { fill: #4493f8 } .a-text { fill: #4493f8 }
  .b { stroke: #f0883e } .b-fill { fill: #f0883e } .b-text { fill: #f0883e }
  .c { stroke: #3fb950 } .c-fill { fill: #3fb950 } .c-text { fill: #3fb950 }
  .node { fill: #212830; stroke: #9198a1 }
}
"""
_SMALL = ".a, .b, .c { stroke-width: 6 } .line, .thin { stroke-width: 3 } .faint { stroke-width: 2 }"


@dataclass
class Drawing:
    """A picture that grows by its methods. Coordinates are pixels from the upper left corner.

    `title` says in words what the picture shows. `small` is the part that the table of operators shows, without labels:
    x, y, width and height. A `kind` is one or more classes of the style.
    """

    title: str
    height: float
    small: tuple[float, float, float, float]
    _marks: list[str] = field(default_factory=list)

    def svg(self) -> str:
        """Return the picture as the text of a file."""
        return self._file((0, 0, _WIDTH, self.height), _STYLE, self._marks)

    def small_svg(self) -> str:
        """Return its small part, with a margin that makes all of one shape, as the text of a file."""
        x, y, width, height = self.small
        wide, high = max(width, height * _SHAPE), max(height, width / _SHAPE)
        view = (x - (wide - width) / 2, y - (high - height) / 2, wide, high)
        marks = [mark for mark in self._marks if not mark.startswith("<text")]
        # A picture within a picture, because that cuts off what lies around it.
        head = f'<svg x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" viewBox="{_view(self.small)}">'
        return self._file(view, _STYLE + _SMALL, [head, *marks, "</svg>"])

    def line(self, start: Point, end: Point, kind: str = "line") -> None:
        """Draw a straight line."""
        (x1, y1), (x2, y2) = start, end
        self._marks.append(f'<line class="{kind}" x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}"/>')

    def curve(self, points: Iterable[Point], kind: str = "a") -> None:
        """Draw a line through points."""
        path = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        self._marks.append(f'<polyline class="{kind}" points="{path}"/>')

    def arrow(self, start: Point, end: Point, kind: str = "line") -> None:
        """Draw an arrow; of the kind's classes the first gives its head the colour."""
        (x1, y1), (x2, y2) = start, end
        angle = math.atan2(y2 - y1, x2 - x1)
        foot = (x2 - _HEAD * math.cos(angle), y2 - _HEAD * math.sin(angle))
        self.line(start, foot, kind)
        sides = [
            (x2 - 1.3 * _HEAD * math.cos(angle + turn), y2 - 1.3 * _HEAD * math.sin(angle + turn))
            for turn in (-0.45, 0.45)
        ]
        self.area([end, *sides], f"{kind.split(maxsplit=1)[0]}-fill")

    def area(self, points: Iterable[Point], kind: str, opacity: float = 1) -> None:
        """Fill the polygon between points."""
        path = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        self._marks.append(f'<polygon class="{kind}"{_opacity(opacity)} points="{path}"/>')

    def box(self, corner: Point, size: Point, kind: str = "line", opacity: float = 1, corner_radius: float = 0) -> None:
        """Draw a rectangle from its upper left corner."""
        radius = f' rx="{_n(corner_radius)}"' if corner_radius else ""
        self._marks.append(
            f'<rect class="{kind}"{_opacity(opacity)} x="{_n(corner[0])}" y="{_n(corner[1])}" width="{_n(size[0])}" '
            f'height="{_n(size[1])}"{radius}/>'
        )

    def dot(self, middle: Point, kind: str = "a-fill", radius: float = 4) -> None:
        """Draw a point."""
        self._marks.append(f'<circle class="{kind}" cx="{_n(middle[0])}" cy="{_n(middle[1])}" r="{_n(radius)}"/>')

    def label(self, at: Point, text: str, kind: str = "middle") -> None:
        """Write a line of text; `at` is where its base line begins, or its middle or end, as the kind says."""
        self._marks.append(f'<text class="{kind}" x="{_n(at[0])}" y="{_n(at[1])}">{escape(text)}</text>')

    def node(self, middle: Point, text: str, width: float = 56, height: float = 30) -> None:
        """Draw a step of a computation: a round box with its name."""
        x, y = middle
        self.box((x - width / 2, y - height / 2), (width, height), "node", corner_radius=6)
        self.label((x, y + 5), text)

    def pixels(self, corner: Point, values: Sequence[Sequence[float]], size: float, kind: str = "a-fill") -> None:
        """Draw an image: each value from 0 to 1 as a square, the stronger the larger it is."""
        for row, line in enumerate(values):
            for column, value in enumerate(line):
                place = (corner[0] + column * size, corner[1] + row * size)
                if value > 0.005:
                    self.box(place, (size, size), kind, opacity=min(value, 1.0))
                self.box(place, (size, size), "faint")

    def _file(self, view: tuple[float, float, float, float], style: str, marks: list[str]) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(view[2])}" height="{_n(view[3])}" viewBox="{_view(view)}" '
            f'role="img" aria-label="{escape(self.title)}">'
        )
        return "\n".join([head, f"<style>{style}</style>", *marks, "</svg>", ""])


@dataclass(frozen=True)
class Plot:
    """A rectangle of a drawing in which places are given by values: `x` and `y` are the smallest and the largest."""

    drawing: Drawing
    corner: Point
    size: Point
    x: Point
    y: Point

    def at(self, x: float, y: float) -> Point:
        """Return where a value lies in the drawing."""
        across, up = (x - self.x[0]) / (self.x[1] - self.x[0]), (y - self.y[0]) / (self.y[1] - self.y[0])
        return self.corner[0] + across * self.size[0], self.corner[1] + (1 - up) * self.size[1]

    def axes(self, x_ticks: Sequence[float] = (), y_ticks: Sequence[float] = ()) -> None:
        """Draw a grid at the ticks, with their numbers below and to the left."""
        for tick in x_ticks:
            self.drawing.line(self.at(tick, self.y[0]), self.at(tick, self.y[1]), "faint")
            x, y = self.at(tick, self.y[0])
            self.drawing.label((x, y + 17), f"{tick:g}".replace("-", "−"), "small muted middle")
        for tick in y_ticks:
            self.drawing.line(self.at(self.x[0], tick), self.at(self.x[1], tick), "faint")
            x, y = self.at(self.x[0], tick)
            self.drawing.label((x - 7, y + 5), f"{tick:g}".replace("-", "−"), "small muted end")

    def curve(self, xs: Sequence[float], ys: Sequence[float], kind: str = "a") -> None:
        """Draw a line through values; it ends where it leaves the rectangle upwards or downwards."""
        inside = [self.at(x, y) for x, y in zip(xs, ys, strict=True) if self.y[0] <= y <= self.y[1]]
        self.drawing.curve(inside, kind)


def _n(value: float) -> str:
    """Return a number with one decimal, or none: the same on every machine, whose last bits may differ."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")


def _view(places: tuple[float, float, float, float]) -> str:
    return " ".join(map(_n, places))


def _opacity(value: float) -> str:
    return "" if value == 1 else f' opacity="{value:.2f}"'
