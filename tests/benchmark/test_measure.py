"""Competitors with planted times in front of a clock that is made of them: what is found, and when it is enough."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from opsmith.benchmark.clock import Sample, Turns
from opsmith.benchmark.measure import LEAST_DIFFERENCE, Limits, TooSlowError, measure


@dataclass
class Planted:
    """A clock whose samples are as planted, and whose time goes by with them."""

    monkeypatch: pytest.MonkeyPatch
    seconds: dict[int, Callable[[], float]] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    now: float = 0.0
    least_calls: int = 1

    def __post_init__(self) -> None:
        self.monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def turns(self, name: str, seconds: Callable[[], float], sets: int = 1) -> Turns:
        turns = Turns([lambda index=index: self.log.append(f"{name}{index}") for index in range(sets)])
        self.seconds[id(turns)], self.names[id(turns)] = seconds, name
        return turns

    def sample(self, turns: Turns, repeats: int) -> Sample:
        for call in turns.take(repeats):
            call()
        taken = self.seconds[id(turns)]()
        self.now += taken * repeats
        return Sample(taken, taken)

    def estimate(self, turns: Turns) -> float:
        return self.sample(turns, 1).wall_s


def noisy(seconds: float, seed: int, noise: float = 0.02) -> Callable[[], float]:
    random_ = random.Random(seed)
    # Interruptions only ever make a sample longer.
    return lambda: seconds * (1 + abs(random_.gauss(0, noise))) * (5 if random_.random() < 0.02 else 1)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Planted:
    return Planted(monkeypatch)


def test_the_same_thing_is_no_difference_in_at_least_nineteen_of_twenty_runs(planted: Planted):
    equal = 0
    for run in range(20):
        one, other, control = (planted.turns(name, noisy(0.01, 10 * run + k)) for k, name in enumerate("abc"))
        found = measure({"one": one, "other": other}, planted, control=control, seed=run)
        equal += found.verdict("one", "other").kind == "equal"
    assert equal >= 19


@pytest.mark.parametrize(("factor", "kind"), [(1.05, "faster"), (0.95, "slower")])
def test_five_percent_are_found(planted: Planted, factor: float, kind: str):
    one, other = planted.turns("one", noisy(0.001, 1)), planted.turns("other", noisy(0.001 * factor, 2))
    verdict = measure({"one": one, "other": other}, planted, control=planted.turns("c", noisy(0.001, 3))).verdict(
        "one", "other"
    )
    assert verdict.kind == kind
    assert verdict.ratio.low <= factor <= verdict.ratio.high


def test_no_difference_is_smaller_than_the_noise_of_the_run(planted: Planted):
    # The same thing made twice differs by 8 % here, so 5 % are no difference.
    turns = {"one": planted.turns("one", lambda: 0.0100), "other": planted.turns("other", lambda: 0.0105)}
    found = measure(turns, planted, control=planted.turns("control", lambda: 0.0108))
    assert found.noise() == pytest.approx(0.08)
    assert found.verdict("one", "other").kind == "equal"


def test_there_is_always_some_noise(planted: Planted):
    turns = {"one": planted.turns("one", lambda: 0.01), "other": planted.turns("other", lambda: 0.01005)}
    found = measure(turns, planted)
    assert found.noise() == LEAST_DIFFERENCE
    assert found.verdict("one", "other").kind == "equal"


def test_enough_is_when_it_is_precise(planted: Planted):
    quiet = {"one": planted.turns("one", lambda: 0.01), "other": planted.turns("other", lambda: 0.02)}
    assert len(measure(quiet, planted).series["one"].wall_s) == 15
    loud = {name: planted.turns(name, noisy(0.01, k, 0.3)) for k, name in enumerate(("one", "other"))}
    assert len(measure(loud, planted, Limits(seconds=100.0)).series["one"].wall_s) == 400


def test_enough_is_when_the_time_is_over(planted: Planted):
    started = planted.now
    turns = {name: planted.turns(name, noisy(0.05, k, 0.3)) for k, name in enumerate(("one", "other"))}
    found = measure(turns, planted, Limits(seconds=3.0))
    assert 5 <= len(found.series["one"].wall_s) < 400
    # A round of three samples may begin just before.
    assert planted.now - started < 3.0 + 3 * 0.05 * 5


def test_too_slow_says_who(planted: Planted):
    turns = {"one": planted.turns("one", lambda: 0.01), "slow": planted.turns("slow", lambda: 2.0)}
    with pytest.raises(TooSlowError, match="5 rounds take 10 s") as raised:
        measure(turns, planted, Limits(seconds=5.0))
    assert raised.value.round_s == {"one": pytest.approx(0.02), "slow": pytest.approx(2.0)}


def test_calls_are_made_until_they_get_no_faster(planted: Planted):
    falling = iter([0.01 * 0.8**step for step in range(12)])
    turns = planted.turns("one", lambda: next(falling, 0.01 * 0.8**11))
    found = measure({"one": turns}, planted, control=planted.turns("control", lambda: 0.01))
    assert found.series["one"].is_steady
    assert found.series["one"].wall_s[0] == pytest.approx(0.01 * 0.8**11)


def test_warming_up_ends_where_it_does_not_help(planted: Planted):
    planted_s = [1.0]

    def ever_faster() -> float:
        planted_s[0] *= 0.9
        return planted_s[0] * 0.05

    found = measure({"one": planted.turns("one", ever_faster)}, planted, Limits(seconds=2.0))
    assert not found.series["one"].is_steady


def test_the_order_changes_from_round_to_round_and_the_seed_says_how(planted: Planted):
    def order(seed: int) -> str:
        planted.log.clear()
        turns = {name: planted.turns(name, lambda: 0.01) for name in "abcd"}
        measure(turns, planted, seed=seed)
        return "".join(planted.log)

    first = order(1)
    rounds = {first[-4 * k - 4 : len(first) - 4 * k] for k in range(3)}
    assert len(rounds) > 1
    assert first == order(1)
    assert first != order(2)


def test_no_competitor_gets_the_inputs_that_another_has_just_read(planted: Planted):
    turns = {name: planted.turns(name, lambda: 0.01, sets=7) for name in "ab"}
    measure(turns, planted, control=planted.turns("c", lambda: 0.01, sets=7))
    in_rounds = [int(entry[1:]) for entry in planted.log[-30:]]
    assert all(one != other for one, other in itertools.pairwise(in_rounds))


def test_drift_is_kept_with_a_series(planted: Planted):
    heat = iter(range(10_000))
    turns = {
        "one": planted.turns("one", lambda: 0.01 * (1 + next(heat) / 100)),
        "two": planted.turns("two", noisy(0.01, 1, 0.2)),
    }
    found = measure(turns, planted)
    assert found.series["one"].drift > 0.1
