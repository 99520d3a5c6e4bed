"""The README's picture: the speedups of its table as bars on a logarithmic axis, an SVG for light and dark pages."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Bar", "bars_of", "draw"]

_WIDTH, _ROW, _TOP = 860, 46, 18
_LEFT, _RIGHT = 300, 770  # where the axis begins and ends
_TICKS = (1, 2, 5, 10, 20, 50, 100)
_STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
.against { font-size: 11px; fill: #59636e }
.tick { font-size: 11px; fill: #59636e; text-anchor: middle }
.name { text-anchor: end }
.line { stroke: #d1d9e0 }
.bar { fill: #2f6feb }
.interval { stroke: #0b2e6f; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .against, .tick { fill: #9198a1 } .line { stroke: #3d444d }
  .bar { fill: #4493f8 } .interval { stroke: #d1e4ff }
}
"""
_SPEEDUP = re.compile(r"([\d.]+)x \[([\d.]+), ([\d.]+)\]")
_MARKS = re.compile(r"\[([^\]]*)\]\([^)]*\)|[`*]")


@dataclass(frozen=True)
class Bar:
    """How many times as fast something is, with the interval, and what it is compared with."""

    name: str
    against: str
    speedup: float
    low: float
    high: float


def bars_of(rows: Sequence[tuple[str, str, str, str]]) -> list[Bar]:
    """Return a bar for each row of the table that has a speedup: the first one of its cell."""
    found = []
    for what, _, baseline, cell in rows:
        if (match := _SPEEDUP.search(cell)) is not None:
            speedup, low, high = map(float, match.groups())
            found.append(Bar(_plain(what), _plain(baseline).partition(":")[0], speedup, low, high))
    return found


def draw(bars: Sequence[Bar]) -> str:
    """Return the picture as the text of an SVG file."""
    last = next(tick for tick in _TICKS if tick >= max(bar.high for bar in bars))
    height = _TOP + _ROW * len(bars) + 26

    def x(value: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * math.log(max(value, 1.0)) / math.log(last)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="'
        + escape("; ".join(f"{bar.name}: {bar.speedup:g} times as fast as {bar.against}" for bar in bars))
        + f'">\n<style>{_STYLE}</style>'
    ]
    bottom = height - 26
    for tick in (tick for tick in _TICKS if tick <= last):
        lines.append(f'<line class="line" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{_TOP - 8}" y2="{bottom}"/>')
        lines.append(f'<text class="tick" x="{x(tick):.1f}" y="{bottom + 17}">{tick}x</text>')
    for index, bar in enumerate(bars):
        middle = _TOP + _ROW * index + _ROW // 2
        lines += [
            f'<text class="name" x="{_LEFT - 12}" y="{middle - 3}">{escape(_first_part(bar.name))}</text>',
            f'<text class="against name" x="{_LEFT - 12}" y="{middle + 13}">against {escape(bar.against)}</text>',
            f'<rect class="bar" x="{_LEFT}" y="{middle - 9}" width="{x(bar.speedup) - _LEFT:.1f}" height="18" rx="2"/>',
            f'<line class="interval" x1="{x(bar.low):.1f}" x2="{x(bar.high):.1f}" y1="{middle}" y2="{middle}"/>',
            f'<text x="{x(bar.high) + 8:.1f}" y="{middle + 5}">{bar.speedup:.3g}x</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def _plain(markdown: str) -> str:
    return _MARKS.sub(lambda match: match.group(1) or "", markdown).replace("`", "")


def _first_part(name: str) -> str:
    return name.partition(", ")[0]
