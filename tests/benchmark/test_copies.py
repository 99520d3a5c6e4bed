"""Builds compared by copies of each: where a library lies in memory is no difference of builds."""

from __future__ import annotations

import random

import pytest

from opsmith.benchmark.copies import compare_copies, noise_of_copies

ROUNDS = 40


def samples(factor: float, seed: int) -> list[float]:
    """Return samples of a call of a microsecond, with a noise of half a per cent."""
    drawn = random.Random(seed)
    return [1e-6 * factor * drawn.gauss(1, 0.005) for _ in range(ROUNDS)]


def build(seed: int, *places: float) -> list[list[float]]:
    return [samples(place, seed + index) for index, place in enumerate(places)]


def test_equal_builds_are_equal_wherever_their_copies_lie() -> None:
    builds = {"jit": build(0, 1.0, 1.03), "setuptools": build(10, 1.03, 1.02), "cmake": build(20, 1.0, 0.99)}
    _, verdicts, noise = compare_copies(builds, 0.01)
    assert [verdict.kind for verdict in verdicts.values()] == ["equal", "equal"]
    assert 0.02 < noise < 0.1


def test_a_build_that_is_slower_in_all_copies_is_found() -> None:
    builds = {"jit": build(0, 1.0, 1.01, 1.02), "cmake": build(20, 1.1, 1.11, 1.12)}
    times, verdicts, _ = compare_copies(builds, 0.01)
    assert verdicts["cmake"].kind == "faster"  # the first is
    assert verdicts["cmake"].ratio.middle == pytest.approx(1.1, abs=0.01)
    assert times["cmake"].middle == pytest.approx(1.11e-6, rel=0.01)


def test_single_copies_tell_nothing_about_their_places() -> None:
    assert noise_of_copies({"jit": build(0, 1.0), "cmake": build(1, 1.1)}) == 0
    _, _, noise = compare_copies({"jit": build(0, 1.0), "cmake": build(1, 1.1)}, 0.02)
    assert noise == 0.02


@pytest.mark.slow("twenty benchmarks")
def test_of_twenty_runs_with_places_drawn_at_random_nearly_none_finds_a_difference() -> None:
    drawn = random.Random(5)
    kinds = []
    for run in range(100):
        builds = {
            name: build(1000 * run + 10 * index, *(drawn.gauss(1, 0.02) for _ in range(3)))
            for index, name in enumerate(("jit", "setuptools", "cmake"))
        }
        kinds += [verdict.kind for verdict in compare_copies(builds, 0.01)[1].values()]
    assert kinds.count("equal") >= 0.95 * len(kinds)
