"""Computes medians with bootstrap intervals from noisy samples, and a verdict on a ratio.

Samples that follow each other are not independent: a busy neighbour slows several of them. So whole blocks of rounds are
drawn again, not single ones (the moving-block bootstrap; Kuensch, Annals of Statistics 17, 1989), and ratios are formed
within a round, where both sides had the same neighbour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

import torch

__all__ = ["Interval", "Verdict", "drift", "judge", "median_interval", "quick_half_width", "ratio_interval"]

LEVEL = 0.95
_RESAMPLES = 1000
# How many standard deviations of a normal distribution LEVEL is.
_DEVIATIONS = 1.96
# A trend is looked for between this part of the rounds at the beginning and at the end, and needs so many.
_END_PART, _LEAST_FOR_DRIFT = 1 / 3, 15


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
    middles = _resampled_medians(torch.tensor(samples, dtype=torch.float64), seed)
    outside = round((1 - LEVEL) / 2 * _RESAMPLES)
    return Interval(median(samples), float(middles[outside]), float(middles[-1 - outside]))


def ratio_interval(ours: Sequence[float], theirs: Sequence[float], *, seed: int = 0) -> Interval:
    """Return how many times as fast the first is, from times of the same rounds; raises ValueError for unequal counts."""
    return median_interval([other / own for own, other in zip(ours, theirs, strict=True)], seed=seed)


def quick_half_width(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return about how wide the interval of the ratio is to each side, as a part of it, for the price of a sort.

    From ranks alone, as if samples were independent: good enough to say when to stop, not to be reported.
    """
    ratios = [other / own for own, other in zip(ours, theirs, strict=True)]
    low, high = _ranked(ratios)
    return (high - low) / 2 / median(ratios)


def judge(ratio: Interval, noise: float) -> Verdict:
    """Return the verdict: a difference must lie outside what two timings of the same thing differ by, at both ends."""
    band = max(noise, 0.0)
    if ratio.low > 1 + band:
        return Verdict("faster", ratio, noise)
    if ratio.high < 1 / (1 + band):
        return Verdict("slower", ratio, noise)
    return Verdict("equal", ratio, noise)


def drift(samples: Sequence[float]) -> float:
    """Return how much longer the last rounds took than the first, as a part; 0 if that is within their noise."""
    part = round(len(samples) * _END_PART)
    if len(samples) < _LEAST_FOR_DRIFT:
        return 0.0
    first, last = samples[:part], samples[-part:]
    (first_low, first_high), (last_low, last_high) = _ranked(first), _ranked(last)
    if first_low <= last_high and last_low <= first_high:
        return 0.0
    return median(last) / median(first) - 1


def _resampled_medians(samples: torch.Tensor, seed: int) -> torch.Tensor:
    """Return the medians of samples drawn again in blocks, in order of size.

    The blocks wrap around the end, so that the last samples are drawn as often as the others. As many samples are drawn as
    there are, or one less: the median of an odd number is one of them.
    """
    count = len(samples)
    length, drawn = max(1, round(count ** (1 / 3))), count - 1 + count % 2
    random = torch.Generator().manual_seed(seed)
    starts = torch.randint(count, (_RESAMPLES, -(-drawn // length), 1), generator=random)
    indices = (starts + torch.arange(length)).flatten(1)[:, :drawn] % count
    return samples[indices].kthvalue(drawn // 2 + 1, dim=1).values.sort().values


def _ranked(samples: Sequence[float]) -> tuple[float, float]:
    """Return the ends of a median's interval from ranks alone, as if the samples were independent."""
    ordered = sorted(samples)
    low = math.floor(len(ordered) / 2 - _DEVIATIONS * math.sqrt(len(ordered)) / 2)
    return (-math.inf, math.inf) if low < 0 else (ordered[low], ordered[-1 - low])
