"""What do noisy timings say? Medians with bootstrap intervals, and a verdict on a ratio.

Samples that follow each other are not independent: a busy neighbour slows several of them. So whole blocks of rounds are
drawn again, not single ones (the moving-block bootstrap; Kuensch, Annals of Statistics 17, 1989), and ratios are formed
within a round, where both sides had the same neighbour.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

__all__ = ["Interval", "Verdict", "judge", "median_interval", "ratio_interval"]

LEVEL = 0.95
_RESAMPLES = 1000


@dataclass(frozen=True)
class Interval:
    """A median and the interval that holds it with a probability of 95 %."""

    middle: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """How far the interval reaches to the farther side, as a part of the median."""
        return max(self.high - self.middle, self.middle - self.low) / self.middle if self.middle > 0 else 0.0


@dataclass(frozen=True)
class Verdict:
    """What a ratio of two times means: `faster`, `slower`, or `equal` where the difference is within the noise.

    `ratio` is how many times as fast the first is as the second; `noise` is how far apart two timings of the same thing
    were, as a part.
    """

    kind: Literal["faster", "slower", "equal"]
    ratio: Interval
    noise: float

    def __str__(self) -> str:
        if self.kind == "equal":
            return "no difference"
        return f"{self.ratio.middle:.2f}x, 95 % in [{self.ratio.low:.2f}, {self.ratio.high:.2f}]"


def median_interval(samples: Sequence[float], *, seed: int = 0) -> Interval:
    """Return the median of samples in the order they were taken, with its interval; raises ValueError for none."""
    if not samples:
        raise ValueError("there are no samples")
    middles = sorted(median(chosen) for chosen in _resampled(samples, seed))
    low, high = _ends(middles)
    return Interval(median(samples), low, high)


def ratio_interval(ours: Sequence[float], theirs: Sequence[float], *, seed: int = 0) -> Interval:
    """Return how many times as fast the first is, from times of the same rounds; raises ValueError for unequal counts."""
    return median_interval([other / own for own, other in zip(ours, theirs, strict=True)], seed=seed)


def judge(ratio: Interval, noise: float) -> Verdict:
    """Return the verdict: a difference must lie outside what two timings of the same thing differ by, at both ends."""
    band = max(noise, 0.0)
    if ratio.low > 1 + band:
        return Verdict("faster", ratio, noise)
    if ratio.high < 1 / (1 + band):
        return Verdict("slower", ratio, noise)
    return Verdict("equal", ratio, noise)


def _resampled(samples: Sequence[float], seed: int) -> list[list[float]]:
    """Return samples drawn again in blocks, as many as there are each time; the blocks wrap around the end."""
    count = len(samples)
    length = max(1, round(count ** (1 / 3)))
    drawn = random.Random(seed)
    ring = [*samples, *samples[:length]]
    resamples = []
    for _ in range(_RESAMPLES):
        chosen: list[float] = []
        while len(chosen) < count:
            start = drawn.randrange(count)
            chosen += ring[start : start + length]
        resamples.append(chosen[:count])
    return resamples


def _ends(ordered: Sequence[float]) -> tuple[float, float]:
    outside = round((1 - LEVEL) / 2 * len(ordered))
    return ordered[outside], ordered[-1 - outside]
