"""How are several things timed so that their ratio can be believed? In turn, in random order, until it is known.

Every round takes one sample of each competitor, in an order of its own, so that whatever disturbs the machine for a while
disturbs all of them. The first competitor is there twice: how far its two series are apart is the noise of this very run,
and no difference smaller than that is called one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opsmith.bench.clock import Call, Clock, repeats_for
from opsmith.bench.statistics import Interval, Verdict, judge, median_interval, ratio_interval

__all__ = ["Limits", "Measurement", "Series", "measure"]

# The second series of the first competitor.
_CONTROL = "\0control"

# No two things are said to differ by less, however quiet the machine: a function's place in memory can do as much.
LEAST_DIFFERENCE = 0.01


@dataclass(frozen=True)
class Limits:
    """How long to measure: at least `rounds`, then until `precision` is reached or `seconds` are over.

    `precision` is the half-width of the interval of a ratio, as a part of it.
    """

    rounds: int = 15
    seconds: float = 3.0
    precision: float = 0.01
    most_rounds: int = 400


@dataclass(frozen=True)
class Series:
    """The samples of one competitor, one a round, in seconds; `repeats` calls make a sample by the clock."""

    wall_s: tuple[float, ...]
    device_s: tuple[float, ...]
    repeats: int

    @property
    def wall(self) -> Interval:
        """The time of one call by the clock."""
        return median_interval(self.wall_s)

    @property
    def device(self) -> Interval:
        """The time of one call as the device sees it."""
        return median_interval(self.device_s)


@dataclass(frozen=True)
class Measurement:
    """The series of all competitors, of the same rounds; `control` is a second one of the first."""

    series: Mapping[str, Series]
    control: Series
    seconds: float

    def noise(self, kind: str = "device") -> float:
        """Return how far apart two series of the same thing are, as a part: the end of the interval of their ratio."""
        first = next(iter(self.series.values()))
        ratio = ratio_interval(_samples(first, kind), _samples(self.control, kind))
        return max(ratio.high - 1, 1 - ratio.low, LEAST_DIFFERENCE)

    def verdict(self, name: str, baseline: str, kind: str = "device") -> Verdict:
        """Return how many times as fast one competitor is as another, and whether that is a difference."""
        ratio = ratio_interval(_samples(self.series[name], kind), _samples(self.series[baseline], kind))
        return judge(ratio, self.noise(kind))


def measure(
    competitors: Mapping[str, Sequence[Call]],
    clock: Clock,
    limits: Limits | None = None,
    *,
    seed: int = 0,
    on_round: Callable[[int], Any] | None = None,
) -> Measurement:
    """Time competitors in turn; each is a sequence of calls that do the same with other inputs, taken round and round."""
    limits = limits or Limits()
    names = list(competitors)
    calls = {**competitors, _CONTROL: competitors[names[0]]}
    repeats = {name: repeats_for(_warm_up(calls[name], clock)) for name in names}
    repeats[_CONTROL] = repeats[names[0]]
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    order, shuffle = list(calls), random.Random(seed)
    started = time.perf_counter()
    done = 0
    while done < limits.most_rounds:
        shuffle.shuffle(order)
        for name in order:
            sample = clock.sample(calls[name], repeats[name])
            samples[name].append((sample.wall_s, sample.device_s))
        done += 1
        if on_round is not None:
            on_round(done)
        if done >= limits.rounds and (
            time.perf_counter() - started >= limits.seconds or _is_precise(samples, names, limits)
        ):
            break
    series = {name: _series(samples[name], repeats[name]) for name in calls}
    control = series.pop(_CONTROL)
    return Measurement(series, control, time.perf_counter() - started)


def _warm_up(calls: Sequence[Call], clock: Clock) -> float:
    """Call until the time of a call no longer falls, and return it; the first calls fill caches and choose algorithms."""
    deadline = time.perf_counter() + 1.0
    before = clock.estimate(calls)
    for _ in range(20):
        now = clock.estimate(calls)
        if now > 0.9 * before or time.perf_counter() > deadline:
            return min(now, before)
        before = now
    return before


def _is_precise(samples: Mapping[str, list[tuple[float, float]]], names: Sequence[str], limits: Limits) -> bool:
    if len(samples[names[0]]) % 5:
        return False  # the intervals take a moment themselves
    ratios = [
        ratio_interval([pair[1] for pair in samples[names[0]]], [pair[1] for pair in samples[name]])
        for name in (*names[1:], _CONTROL)
    ]
    return all(ratio.half_width <= limits.precision for ratio in ratios)


def _series(samples: Sequence[tuple[float, float]], repeats: int) -> Series:
    return Series(tuple(pair[0] for pair in samples), tuple(pair[1] for pair in samples), repeats)


def _samples(series: Series, kind: str) -> tuple[float, ...]:
    return series.device_s if kind == "device" else series.wall_s
