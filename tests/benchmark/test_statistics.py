"""Planted samples with known answers: intervals that hold the median, and verdicts that are right about them."""

from __future__ import annotations

import math
import random

import pytest

from opsmith.benchmark.statistics import Interval, drift, judge, median_interval, quick_half_width, ratio_interval


def correlated(random_: random.Random, count: int, memory: float) -> list[float]:
    """Return noise around 1 whose values remember the ones before."""
    value, found = 0.0, []
    for _ in range(count):
        value = memory * value + math.sqrt(1 - memory**2) * random_.gauss(0, 1)
        found.append(1 + 0.05 * value)
    return found


def coverage(memory: float, count: int, trials: int = 200) -> float:
    random_ = random.Random(7)
    found = [median_interval(correlated(random_, count, memory), seed=trial) for trial in range(trials)]
    return sum(interval.low <= 1 <= interval.high for interval in found) / trials


@pytest.mark.slow("thousands of bootstrap intervals")
def test_an_interval_holds_the_median_as_often_as_it_says():
    assert 0.90 <= coverage(0.0, 40) <= 0.99


@pytest.mark.slow("thousands of bootstrap intervals")
def test_blocks_are_drawn_where_samples_depend_on_each_other():
    # Drawn one by one, such samples would give intervals that hold the median in 80 % of the runs.
    assert coverage(0.5, 120) >= 0.86


def test_an_interval_has_the_median_in_it_and_gets_narrower():
    samples = correlated(random.Random(1), 200, 0.0)
    few, many = median_interval(samples[:20]), median_interval(samples)
    assert few.low <= few.middle <= few.high
    assert many.half_width < few.half_width


def test_an_even_and_an_odd_number_of_samples():
    assert median_interval([3.0, 1.0, 2.0]).middle == 2.0
    assert median_interval([4.0, 1.0, 2.0, 3.0]).middle == 2.5
    assert median_interval([5.0]) == Interval(5.0, 5.0, 5.0)


def test_the_same_samples_give_the_same_interval():
    samples = correlated(random.Random(2), 50, 0.0)
    assert median_interval(samples) == median_interval(samples)


def test_no_samples_and_unequal_counts_are_refused():
    with pytest.raises(ValueError, match="no samples"):
        median_interval([])
    with pytest.raises(ValueError, match="zip"):
        ratio_interval([1.0, 2.0], [1.0])


def test_outliers_move_nothing():
    samples = correlated(random.Random(3), 100, 0.0)
    spoiled = [value * 20 if index % 10 == 0 else value for index, value in enumerate(samples)]
    assert median_interval(spoiled).middle == pytest.approx(1, abs=0.03)
    assert median_interval(spoiled).high < 1.06


def test_what_disturbs_both_sides_of_a_round_is_no_difference():
    random_ = random.Random(4)
    neighbour = [3.0 if 30 <= index < 70 else 1.0 for index in range(100)]
    ours = [slow * value for slow, value in zip(neighbour, correlated(random_, 100, 0.0), strict=True)]
    theirs = [1.05 * slow * value for slow, value in zip(neighbour, correlated(random_, 100, 0.0), strict=True)]
    ratio = ratio_interval(ours, theirs)
    assert 1.02 < ratio.low < 1.05 < ratio.high < 1.08


@pytest.mark.parametrize(
    ("low", "high", "noise", "kind"),
    [
        (1.04, 1.06, 0.02, "faster"),
        (1.01, 1.06, 0.02, "equal"),  # the interval reaches into the noise
        (1.04, 1.06, 0.05, "equal"),
        (0.94, 0.96, 0.02, "slower"),
        (0.94, 0.99, 0.02, "equal"),
        (0.98, 1.02, 0.0, "equal"),
        (0.5, 2.0, 0.01, "equal"),
    ],
)
def test_a_verdict(low: float, high: float, noise: float, kind: str):
    verdict = judge(Interval((low + high) / 2, low, high), noise)
    assert verdict.kind == kind
    assert ("no difference" in str(verdict)) == (kind == "equal")


def test_a_verdict_in_words():
    assert str(judge(Interval(1.42, 1.38, 1.46), 0.01)) == "1.42x, 95 % in [1.38, 1.46]"


def test_drift_is_what_the_end_differs_by_from_the_beginning():
    random_ = random.Random(5)
    steady = correlated(random_, 90, 0.0)
    heating = [value * (1 + 0.3 * index / 90) for index, value in enumerate(steady)]
    assert drift(steady) == 0.0
    assert drift(heating) == pytest.approx(0.2, abs=0.06)
    assert drift(heating[::-1]) < -0.1
    assert drift(heating[:8]) == 0.0  # too few to say


def test_the_quick_interval_is_about_the_bootstrap_s():
    random_ = random.Random(6)
    ours, theirs = correlated(random_, 100, 0.0), correlated(random_, 100, 0.0)
    slow = ratio_interval(ours, theirs)
    assert quick_half_width(ours, theirs) == pytest.approx((slow.high - slow.low) / 2, rel=0.4)
    assert quick_half_width(ours[:3], theirs[:3]) == math.inf
