"""Regions of sizes get the configuration that is best in them, with conditions that a launch understands."""

from __future__ import annotations

import itertools

import pytest

from opsmith.spec.launch import parse_launch
from opsmith.tuning.decide import Point, Region, divide


def test_one_configuration_that_is_best_everywhere_needs_no_bounds():
    points = [Point({"N": n}, {0: 2.0, 1: 1.0}) for n in (16, 64, 256)]
    assert divide(points) == [Region(1, {})]


def test_a_few_percent_are_no_reason_to_cut():
    points = [Point({"N": 16}, {0: 1.0, 1: 1.02}), Point({"N": 64}, {0: 1.02, 1: 1.0})]
    assert len(divide(points)) == 1


def test_a_cut_is_between_the_sizes_by_order_of_magnitude():
    points = [Point({"N": 100}, {0: 1.0, 1: 2.0}), Point({"N": 10_000}, {0: 3.0, 1: 1.0})]
    assert [(region.choice, region.condition) for region in divide(points)] == [(0, "N <= 1000"), (1, "N > 1000")]


def test_what_cannot_be_called_is_not_chosen():
    points = [Point({"N": 8}, {0: 1.0, 1: 9.0}), Point({"N": 9}, {1: 9.0}), Point({"N": 10}, {})]
    assert [(region.choice, region.condition) for region in divide(points)] == [(0, "N <= 8"), (1, "N > 8")]
    assert divide([Point({"N": 1}, {})]) == []


@pytest.mark.parametrize("seed", range(20))
def test_each_measured_size_gets_a_configuration_that_is_nearly_the_best(seed: int):
    """Over two sizes; and the conditions hold in a launch where the regions do."""
    points = []
    for m, n in itertools.product((1, 16, 500), (64, 1024, 9000)):
        points.append(
            Point({"M": m, "N": n}, {c: 1.0 + ((m * 7 + n * (c + 3) + seed * c) % 11) / 10 for c in range(4)})
        )
    regions = divide(points)
    configs = [{"BLOCK": region.choice, "when": region.condition or "N >= 0"} for region in regions]
    launch = parse_launch("test", "M", [*configs, {"BLOCK": 99}], {})
    for point in points:
        chosen = launch.choose(point.sizes)
        assert chosen is not None
        assert point.seconds[chosen.numbers["BLOCK"]] <= 1.03 * min(point.seconds.values())
