"""Tells whether builds differ, or only the addresses that their libraries were loaded to, by several copies of each.

A loop at another address, or data that share a cache line, can make the same machine code some per cent faster or slower
for as long as a process lives. So there are several copies of each build, under names of their own, and builds are compared
by the means of their copies: by Student's t, with the variance between copies of one build (Student, "The probable error of
a mean", Biometrika 6, 1908).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median, variance

from opsmith.benchmark.statistics import Interval, Verdict, judge, median_interval, ratio_interval

__all__ = ["compare_copies", "noise_of_copies"]

# The samples of one build: of each copy one sample a round, in seconds.
Copies = Sequence[Sequence[float]]

# What Student's t is below in absolute value with a probability of 95 %, by degrees of freedom from 1 on.
_T = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)


def compare_copies(
    builds: Mapping[str, Copies], least_noise: float
) -> tuple[dict[str, Interval], dict[str, Verdict], float]:
    """Return the time of each build, a verdict on each against the first, and the noise, as a part.

    `least_noise` is what two series of one copy differ by. The verdict says how many times as fast the first is.
    """
    noise = max(least_noise, noise_of_copies(builds))
    means = {name: [fmean(samples) for samples in zip(*of, strict=True)] for name, of in builds.items()}
    first, *others = means
    times = {name: median_interval(samples) for name, samples in means.items()}
    verdicts = {name: judge(ratio_interval(means[first], means[name]), noise) for name in others}
    return times, verdicts, noise


def noise_of_copies(builds: Mapping[str, Copies]) -> float:
    """Return what the means of two equal builds differ by less than, in 19 of 20 cases, as a part.

    0 if each build has one copy: nothing is known of places then.
    """
    # A difference of logarithms is a ratio, for differences of some per cent.
    levels = [[math.log(median(samples)) for samples in of] for of in builds.values()]
    freedom = sum(len(copies) - 1 for copies in levels)
    if freedom == 0:
        return 0.0
    spread = math.sqrt(sum(variance(copies) * (len(copies) - 1) for copies in levels if len(copies) > 1) / freedom)
    fewest, second = sorted(len(copies) for copies in levels)[:2] if len(levels) > 1 else (len(levels[0]),) * 2
    return _T[min(freedom, len(_T)) - 1] * spread * math.sqrt(1 / fewest + 1 / second)
