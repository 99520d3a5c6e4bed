"""Times several competitors in turn, in random order, until their ratios are known.

Every round takes one sample of each competitor, in an order of its own, so that a disturbance of the machine affects
all of them. The first competitor takes part twice, made twice: how far its two series are apart is the noise of this
very run, and no smaller difference is called one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from opsmith.benchmark.clock import Clock, Turns, repeats_for
from opsmith.benchmark.statistics import (
    Interval,
    Verdict,
    drift,
    judge,
    median_interval,
    quick_half_width,
    ratio_interval,
)

__all__ = ["LEAST_DIFFERENCE", "Limits", "Measurement", "Series", "TooSlowError", "measure"]

# The second series of the first competitor.
_CONTROL = "\0control"

# No smaller difference is reported, however quiet the machine: a function's address in memory can make as much.
LEAST_DIFFERENCE = 0.01
# With fewer rounds an interval means nothing.
_LEAST_ROUNDS = 5
# Warm-up is over when so many windows in a row are no faster than the best before them by this part, and takes at most
# this part of the time.
_STEADY_WINDOWS, _STEADY, _WARM_UP_PART = 3, 0.05, 0.2


class TooSlowError(Exception):
    """Too little time for as many rounds as an interval needs. `round_s` is what each competitor takes of a round."""

    def __init__(self, round_s: Mapping[str, float]) -> None:
        self.round_s = dict(round_s)
        super().__init__(f"{_LEAST_ROUNDS} rounds take {_LEAST_ROUNDS * sum(round_s.values()):.2g} s")


@dataclass(frozen=True)
class Limits:
    """How long to measure: at least `rounds`, then until `precision` is reached or `seconds` are over.

    `precision` is the half-width of the interval of a ratio, as a part of it. Where `rounds` do not fit into the
    seconds, there are fewer, but never less than five.
    """

    rounds: int = 15
    seconds: float = 5.0
    precision: float = 0.005
    most_rounds: int = 400


@dataclass(frozen=True)
class Series:
    """The samples of one competitor, one a round, in seconds; `repeats` calls make a sample by the clock.

    `is_steady` says that calls had stopped getting faster before the first sample was taken.
    """

    wall_s: tuple[float, ...]
    device_s: tuple[float, ...]
    repeats: int
    is_steady: bool = True

    @property
    def wall(self) -> Interval:
        """The time of one call by the clock."""
        return median_interval(self.wall_s)

    @property
    def device(self) -> Interval:
        """The time of one call as the device sees it."""
        return median_interval(self.device_s)

    @property
    def drift(self) -> float:
        """How much longer the last rounds took than the first, as a part; 0 if that is within the noise."""
        return drift(self.device_s)


@dataclass(frozen=True)
class Measurement:
    """The series of all competitors, of the same rounds; `control` is a second one of the first."""

    series: Mapping[str, Series]
    control: Series
    seconds: float
    _noise: dict[str, float] = field(default_factory=dict, repr=False, compare=False)

    def noise(self, kind: str = "device") -> float:
        """Return how far apart two series of the same thing are, as a part: the end of the interval of their ratio."""
        if kind not in self._noise:
            first = next(iter(self.series.values()))
            ratio = ratio_interval(_samples(first, kind), _samples(self.control, kind))
            self._noise[kind] = max(ratio.high - 1, 1 - ratio.low, LEAST_DIFFERENCE)
        return self._noise[kind]

    def verdict(self, name: str, baseline: str, kind: str = "device") -> Verdict:
        """Return how many times as fast one competitor is as another, and whether that is a difference."""
        ratio = ratio_interval(_samples(self.series[name], kind), _samples(self.series[baseline], kind))
        return judge(ratio, self.noise(kind))


def measure(
    competitors: Mapping[str, Turns],
    clock: Clock,
    limits: Limits | None = None,
    *,
    control: Turns | None = None,
    seed: int = 0,
) -> Measurement:
    """Time competitors in turn, the first of them twice; `control` is another one that does the same as the first.

    Raises TooSlowError if the seconds of the limits are not enough for five rounds, and whatever a competitor raises.
    """
    limits = limits or Limits()
    started = time.perf_counter()
    names = list(competitors)
    turns = {**competitors, _CONTROL: control or competitors[names[0]]}
    # They also take turns in warming up: the first would find a colder machine than the others.
    warm = _warm_up(turns, clock, limits.seconds * _WARM_UP_PART)
    repeats = {name: repeats_for(call_s) for name, (call_s, _) in warm.items()}
    repeats[_CONTROL] = repeats[names[0]]
    # On a GPU some calls are timed one by one beside those by the clock.
    beside = clock.least_calls - 1
    round_s = {name: (repeats[name] + beside) * call_s for name, (call_s, _) in warm.items()}
    end = started + limits.seconds
    if _LEAST_ROUNDS * sum(round_s.values()) > limits.seconds:
        round_s[names[0]] += round_s.pop(_CONTROL)
        raise TooSlowError(round_s)
    samples = _rounds(turns, repeats, clock, limits, end, random.Random(seed))
    series = {name: _series(samples[name], repeats[name], warm[name][1]) for name in turns}
    control_series = series.pop(_CONTROL)
    return Measurement(series, control_series, time.perf_counter() - started)


def _rounds(
    turns: Mapping[str, Turns],
    repeats: Mapping[str, int],
    clock: Clock,
    limits: Limits,
    end: float,
    shuffle: random.Random,
) -> dict[str, list[tuple[float, float]]]:
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in turns}
    order = list(turns)
    for done in range(1, limits.most_rounds + 1):
        shuffle.shuffle(order)
        for name in order:
            before = turns[name].made
            sample = clock.sample(turns[name], repeats[name])
            samples[name].append((sample.wall_s, sample.device_s))
            # Competitors may share inputs. What one has just read is in the cache, so the others go past it.
            for other in order:
                if other != name and turns[other] is not turns[name]:
                    turns[other].skip(turns[name].made - before)
        if done >= _LEAST_ROUNDS and time.perf_counter() >= end:
            break
        if done >= limits.rounds and done % 5 == 0 and _is_precise(samples, limits):
            break
    return samples


def _warm_up(turns: Mapping[str, Turns], clock: Clock, seconds: float) -> dict[str, tuple[float, bool]]:
    """Call all until none gets faster any more; return the seconds of a call of each, and whether that was so.

    The first calls fill caches, choose algorithms and raise the clocks.
    """
    deadline = time.perf_counter() + seconds
    best = {name: clock.estimate(turn) for name, turn in turns.items()}
    calm = dict.fromkeys(turns, 0)
    while time.perf_counter() < deadline and min(calm.values()) < _STEADY_WINDOWS:
        for name, turn in turns.items():
            now = clock.sample(turn, repeats_for(best[name])).wall_s if best[name] < 0.001 else clock.estimate(turn)
            calm[name] = 0 if now < best[name] * (1 - _STEADY) else calm[name] + 1
            best[name] = min(best[name], now)
            if time.perf_counter() > deadline:
                break
    return {name: (best[name], calm[name] >= _STEADY_WINDOWS) for name in turns}


def _is_precise(samples: Mapping[str, list[tuple[float, float]]], limits: Limits) -> bool:
    first, *others = [[pair[1] for pair in found] for found in samples.values()]
    return all(quick_half_width(first, other) <= limits.precision for other in others)


def _series(samples: Sequence[tuple[float, float]], repeats: int, is_steady: bool) -> Series:
    return Series(tuple(pair[0] for pair in samples), tuple(pair[1] for pair in samples), repeats, is_steady)


def _samples(series: Series, kind: str) -> tuple[float, ...]:
    return series.device_s if kind == "device" else series.wall_s
