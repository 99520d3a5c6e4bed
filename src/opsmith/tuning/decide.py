"""Divides the sizes that were measured into regions, each with the configuration that is best in it.

A small decision tree: a region in which one configuration is within a few percent of the best everywhere stays whole;
another is cut between two values of one size, where this costs least. Between the two values the cut is at their
geometric mean, because what a size changes is mostly a matter of its order of magnitude.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

__all__ = ["Point", "Region", "divide"]

# A configuration this much slower than the best one is as good: what is measured varies by about as much.
_CLOSE = 0.03
# What it costs to choose a configuration that cannot be called: more than any slowdown, in natural logarithms.
_UNUSABLE = 100.0


@dataclass(frozen=True)
class Point:
    """The seconds of a call at some sizes, by the number of the configuration; those that cannot be called are not there."""

    sizes: Mapping[str, int]
    seconds: Mapping[int, float]

    def cost(self, choice: int) -> float:
        """Return how much slower a configuration is than the best one, as a logarithm."""
        if choice not in self.seconds:
            return _UNUSABLE
        return math.log(self.seconds[choice] / min(self.seconds.values()))


@dataclass(frozen=True)
class Region:
    """Sizes within bounds, `(above, at_most)` by name, and the number of the configuration to take there."""

    choice: int
    bounds: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether some sizes are within the bounds."""
        return all(
            (above is None or sizes[name] > above) and (most is None or sizes[name] <= most)
            for name, (above, most) in self.bounds.items()
        )

    @property
    def condition(self) -> str:
        """The bounds as the condition of a configuration, "" where there are none."""
        return " and ".join(_within(name, *bounds) for name, bounds in self.bounds.items())


def divide(points: Sequence[Point]) -> list[Region]:
    """Return regions that cover all sizes, small ones first. Points at which nothing can be called have no say."""
    usable = [point for point in points if point.seconds]
    return _divide(usable, {}) if usable else []


def _divide(points: Sequence[Point], bounds: Mapping[str, tuple[int | None, int | None]]) -> list[Region]:
    choice, _ = _best(points)
    cuts = [(_cost_of(points, name, at), name, at) for name, at in _cuts(points)]
    if not cuts or all(point.cost(choice) <= math.log1p(_CLOSE) for point in points):
        return [Region(choice, bounds)]
    # Where no cut costs less by itself, one of those in its parts may.
    _, name, at = min(cuts)
    above, most = bounds.get(name, (None, None))
    low, high = _parts(points, name, at)
    found = [*_divide(low, {**bounds, name: (above, at)}), *_divide(high, {**bounds, name: (at, most)})]
    return [Region(choice, bounds)] if {region.choice for region in found} == {choice} else found


def _best(points: Sequence[Point]) -> tuple[int, float]:
    """Return the configuration that costs least at some points together, and that cost."""
    choices = sorted({choice for point in points for choice in point.seconds})
    total, choice = min((sum(point.cost(choice) for point in points), choice) for choice in choices)
    return choice, total


def _cuts(points: Sequence[Point]) -> Iterator[tuple[str, int]]:
    for name in points[0].sizes:
        values = sorted({point.sizes[name] for point in points})
        for low, high in pairwise(values):
            yield name, max(low, math.isqrt(low * high))


def _cost_of(points: Sequence[Point], name: str, at: int) -> float:
    return sum(_best(part)[1] for part in _parts(points, name, at))


def _parts(points: Sequence[Point], name: str, at: int) -> tuple[list[Point], list[Point]]:
    low = [point for point in points if point.sizes[name] <= at]
    return low, [point for point in points if point.sizes[name] > at]


def _within(name: str, above: int | None, most: int | None) -> str:
    if above is None:
        return f"{name} <= {most}"
    return f"{name} > {above}" if most is None else f"{above} < {name} <= {most}"
