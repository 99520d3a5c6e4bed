"""Places numbers along an axis, in decades or evenly, and chooses the round numbers beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["LinearScale", "LogScale", "Scale", "linear_scale", "log_scale"]

# Within one or two decades the powers of ten are too few to read a value from.
_STEPS = {1: (1, 2, 5), 2: (1, 3)}
_MOST_TICKS = 7


class Scale(Protocol):
    """An axis."""

    def at(self, number: float) -> float:
        """Return where a number lies, in the units of the drawing; what is outside lies at the edge."""

    def ticks(self) -> list[float]:
        """Return the round numbers to be written beside the axis."""


@dataclass(frozen=True)
class LogScale:
    """A logarithmic axis from `low` to `high`, drawn from `start` to `end` in the units of the drawing."""

    low: float
    high: float
    start: float
    end: float

    def at(self, number: float) -> float:
        """Return where a number lies; what is outside lies at the edge."""
        part = math.log(max(number, 1e-300) / self.low) / math.log(self.high / self.low)
        return self.start + min(1.0, max(0.0, part)) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return powers of ten, and some numbers between them where there are few."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        steps = _STEPS.get(round(math.log10(self.high / self.low)) or 1, (1,))
        found = [step * 10.0**power for power in range(first, last + 1) for step in steps]
        inside = [number for number in found if self.low * (1 - 1e-9) <= number <= self.high * (1 + 1e-9)]
        every = math.ceil(len(inside) / _MOST_TICKS)
        return inside[::every] if inside else [self.low]


@dataclass(frozen=True)
class LinearScale:
    """An even axis from `low` to `high`, drawn from `start` to `end` in the units of the drawing."""

    low: float
    high: float
    start: float
    end: float

    def at(self, number: float) -> float:
        """Return where a number lies; what is outside lies at the edge."""
        part = (number - self.low) / (self.high - self.low)
        return self.start + min(1.0, max(0.0, part)) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return multiples of 1, 2 or 5 times a power of ten, as many as can be read."""
        rough = (self.high - self.low) / _MOST_TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def log_scale(
    numbers: Iterable[float], ends: tuple[float, float], *, margin: float = 0.1, least: float = 4.0
) -> LogScale:
    """Return a scale that holds some positive numbers with a margin at both ends, and spans at least a factor of `least`."""
    held: Sequence[float] = [number for number in numbers if number > 0 and math.isfinite(number)] or [1.0]
    low, high = min(held), max(held)
    if high / low < least:
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(least), middle * math.sqrt(least)
    more = (high / low) ** margin
    return LogScale(low / more, high * more, *ends)


def linear_scale(numbers: Iterable[float], ends: tuple[float, float]) -> LinearScale:
    """Return a scale that holds some numbers, one at least."""
    held = list(numbers)
    low, high = min(held), max(held)
    return LinearScale(low, high if high > low else low + 1.0, *ends)
