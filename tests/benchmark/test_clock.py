"""Samples by a clock that the test turns on: what is counted, what is not, and whose turn it is."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch

from opsmith.benchmark.clock import CpuClock, GpuClock, Turns, clock_for, repeats_for


class Hand:
    """A clock that stands still until somebody turns it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def call(self, seconds: float, log: list[str] | None = None, name: str = "") -> Callable[[], None]:
        def run() -> None:
            self.now += seconds
            if log is not None:
                log.append(name)

        return run


@pytest.fixture
def hand(monkeypatch: pytest.MonkeyPatch) -> Hand:
    return Hand(monkeypatch)


def test_the_seconds_of_one_call(hand: Hand):
    turns = Turns([hand.call(0.25)])
    sample = CpuClock().sample(turns, 4)
    assert sample.wall_s == sample.device_s == 0.25
    assert turns.host_s == 0.25


def test_the_first_calls_do_not_count(hand: Hand):
    seconds = iter([0.9] * 10 + [1e-5] * 1000)

    def getting_faster() -> None:
        hand.now += next(seconds)

    # A call of 100 us that is made for a millisecond before it is timed.
    sample = CpuClock().sample(Turns([getting_faster], host_s=1e-4), 100)
    assert sample.wall_s == pytest.approx(1e-5)


def test_a_long_call_is_not_made_for_nothing(hand: Hand):
    turns = Turns([hand.call(0.5)], host_s=0.5)
    CpuClock().sample(turns, 1)
    assert turns.made == 1


def test_each_sample_goes_on_where_the_last_has_stopped(hand: Hand):
    log: list[str] = []
    turns = Turns([hand.call(1.0, log, name) for name in "abc"], host_s=1.0)
    clock = CpuClock()
    clock.sample(turns, 2)
    clock.sample(turns, 2)
    assert log == ["a", "b", "c", "a"]
    turns.skip(2)
    clock.sample(turns, 1)
    assert log[-1] == "a"


def test_arguments_are_put_back_before_a_sample_and_not_in_it(hand: Hand):
    log: list[str] = []
    turns = Turns([hand.call(1.0, log, "call")], hand.call(100.0, log, "reset"), host_s=1.0)
    assert CpuClock().sample(turns, 2).wall_s == 1.0
    assert log == ["reset", "call", "call"]


def test_an_estimate_is_the_shortest_of_some_and_one_of_long_ones(hand: Hand):
    seconds = iter([0.005, 0.003, 0.002, 0.004, 0.006])

    def uneven() -> None:
        hand.now += next(seconds)

    assert CpuClock().estimate(Turns([uneven], host_s=1.0)) == pytest.approx(0.002)
    long = Turns([hand.call(2.0)], host_s=2.0)
    assert CpuClock().estimate(long) == 2.0
    assert long.made == 1


def test_a_sample_takes_about_three_milliseconds():
    assert repeats_for(1e-3) == 3
    assert repeats_for(5.0) == 1
    assert repeats_for(1e-6) == 3000
    assert repeats_for(0.0) == 20_000


def test_the_clock_of_a_device():
    assert isinstance(clock_for("cpu"), CpuClock)
    assert isinstance(clock_for("cuda"), GpuClock)


@pytest.mark.gpu
@pytest.mark.whole_gpu
def test_on_a_gpu_the_host_s_time_is_in_the_one_figure_and_not_in_the_other():
    x = torch.randn(1 << 22, device="cuda")

    def slow_to_launch() -> None:
        started = time.perf_counter()
        while time.perf_counter() - started < 500e-6:
            pass
        x.sin_()

    clock, fast, slow = GpuClock(), Turns([x.sin_]), Turns([slow_to_launch])
    for _ in range(3):
        quick, held_up = clock.sample(fast, 20), clock.sample(slow, 20)
    assert held_up.wall_s > 400e-6
    assert held_up.device_s < 1.5 * quick.device_s < 300e-6


@pytest.mark.gpu
@pytest.mark.whole_gpu
def test_on_a_gpu_a_call_that_waits_does_not_delay_itself_more_and_more():
    x = torch.randn(1 << 20, device="cuda")
    clock, waiting = GpuClock(), Turns([lambda: x.sum().item()])
    for _ in range(20):
        clock.sample(waiting, 10)
    assert waiting.host_s < 0.001
