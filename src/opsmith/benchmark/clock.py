"""Times calls: on the CPU by the clock; on a GPU by events around each call, and by the clock over many calls.

On a GPU the two differ. Events time a call as the GPU sees it: the second-level cache is emptied first, and the GPU is
kept busy until the call has been launched, so that the time of Python and the dispatcher is not included. What a call
leaves to other streams is waited for and counted. The clock times many calls in a row as a program sees them, with all of
that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import Any, Protocol

import torch

from opsmith.benchmark.persisting_l2 import reset_persisting_l2

__all__ = ["SAMPLE_S", "Call", "Clock", "CpuClock", "GpuClock", "Sample", "Turns", "clock_for", "repeats_for"]

Call = Callable[[], Any]

# A sample by the clock is as many calls as take about so long: a hundred thousand ticks of the clock, and longer than most
# interruptions by the system take to be noticed.
SAMPLE_S = 0.003
_MOST_REPEATS = 20_000

# Waiting for a GPU after its current stream has ended, so many times as long as for an idle one and so much longer, means
# that another stream is at work.
_BUSY_TIMES, _BUSY_S = 3.0, 5e-6


@dataclass(frozen=True)
class Sample:
    """Seconds of one call: `wall_s` by the clock, `device_s` as the GPU sees it (on the CPU they are one)."""

    wall_s: float
    device_s: float


@dataclass
class Turns:
    """Calls that do the same with other inputs, taken round and round; each sample goes on where the last has stopped.

    `reset` puts arguments back that a call has written to; it is called before each sample. `host_s` is what the host
    took for a call of late, in seconds, as the clock has learned it; `made` counts the calls.
    """

    calls: Sequence[Call]
    reset: Call | None = None
    host_s: float = 100e-6
    made: int = 0
    _next: int = field(default=0, repr=False)

    def take(self, count: int) -> list[Call]:
        """Return the next calls."""
        start, self._next = self._next, (self._next + count) % len(self.calls)
        self.made += count
        return [self.calls[(start + index) % len(self.calls)] for index in range(count)]

    def skip(self, count: int) -> None:
        """Skip so many calls: another competitor has just used their inputs, which are in the cache."""
        self._next = (self._next + count) % len(self.calls)


class Clock(Protocol):
    """What takes samples on one kind of device."""

    # How many calls are made in a sample at least.
    least_calls: int

    def sample(self, turns: Turns, repeats: int) -> Sample:
        """Make so many calls and return the seconds of one."""
        ...

    def estimate(self, turns: Turns) -> float:
        """Return roughly how long one call takes by the clock, in seconds."""
        ...


def repeats_for(seconds: float) -> int:
    """Return how many calls make a sample by the clock."""
    return max(1, min(_MOST_REPEATS, round(SAMPLE_S / max(seconds, 1e-9))))


class CpuClock:
    """Times calls on the CPU. Each sample begins with some that do not count.

    The previous turn has left threads that still spin while waiting for work, and caches and predictors full
    of its own.
    """

    least_calls = 1
    _LEAD_IN_S = 0.001

    def sample(self, turns: Turns, repeats: int) -> Sample:
        """Make so many calls and return the seconds of one."""
        if turns.reset is not None:
            turns.reset()
        for call in turns.take(min(repeats, round(self._LEAD_IN_S / max(turns.host_s, 1e-9)))):
            call()
        calls = turns.take(repeats)
        started = time.perf_counter()
        for call in calls:
            call()
        turns.host_s = seconds = (time.perf_counter() - started) / repeats
        return Sample(seconds, seconds)

    def estimate(self, turns: Turns) -> float:
        """Return roughly how long one call takes, in seconds: the shortest of a few, or of one where it is long."""
        shortest = self.sample(turns, 1).wall_s
        for _ in range(4):
            if shortest > SAMPLE_S * 10:
                break
            shortest = min(shortest, self.sample(turns, 1).wall_s)
        return shortest


class GpuClock:
    """Times calls on a GPU; all of them on the current stream of the current device."""

    # Calls between events in one sample: enough for a median, few enough to take turns often.
    _EVENTS = 5
    least_calls = _EVENTS + 1
    # What the GPU is kept busy for at most while a call is launched: a call that takes longer is host-bound in any case.
    _LONGEST_LAUNCH_S = 0.02

    @cached_property
    def _flush(self) -> torch.Tensor:
        """Memory that is more than three times the second-level cache; writing it pushes everything else out."""
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        size = getattr(properties, "L2_cache_size", 0) or 64 << 20
        return torch.empty(3 * size + (1 << 20), dtype=torch.int8, device="cuda")

    @cached_property
    def _cycles_s(self) -> float:
        """How many cycles the GPU's own waiting loop makes in a second."""
        cycles = 2_000_000
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(cycles)
        begin.record()
        torch.cuda._sleep(cycles)
        end.record()
        torch.cuda.synchronize()
        return float(cycles / max(begin.elapsed_time(end) * 1e-3, 1e-6))

    @cached_property
    def _idle_s(self) -> float:
        """What it takes to wait for a GPU that has nothing to do."""
        torch.cuda.synchronize()
        taken = []
        for _ in range(20):
            started = time.perf_counter()
            torch.cuda.synchronize()
            taken.append(time.perf_counter() - started)
        return median(taken)

    def sample(self, turns: Turns, repeats: int) -> Sample:
        """Return the seconds of one call: the median between events, and the mean by the clock of `repeats` in a row."""
        if turns.reset is not None:
            turns.reset()
        timed = [self._between_events(turns.host_s, call) for call in turns.take(self._EVENTS)]
        calls = turns.take(repeats)
        torch.cuda.synchronize()
        started = time.perf_counter()
        for call in calls:
            call()
        torch.cuda.synchronize()
        wall_s = (time.perf_counter() - started) / repeats
        # One that waits for the GPU has waited for its delay too; so what it takes by itself is an upper bound.
        turns.host_s = min(max(launch_s for _, launch_s in timed), wall_s)
        return Sample(wall_s, median(device_s for device_s, _ in timed))

    def estimate(self, turns: Turns) -> float:
        """Return roughly how long one call takes by the clock, in seconds: the mean of a few, or one that is long."""
        if turns.reset is not None:
            turns.reset()
        calls = turns.take(5)
        torch.cuda.synchronize()
        started = time.perf_counter()
        for count, call in enumerate(calls, 1):
            call()
            if count == 1:
                torch.cuda.synchronize()
                if time.perf_counter() - started > SAMPLE_S * 10:
                    break
        torch.cuda.synchronize()
        return (time.perf_counter() - started) / count

    def _between_events(self, launch_s: float, call: Call) -> tuple[float, float]:
        """Return the seconds between an event before a call and one behind it, and those that the host took for it.

        The GPU is kept busy for about as long as the launch takes, so that the event before the call is not reached
        until all of it is queued.
        """
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        reset_persisting_l2()
        self._flush.zero_()
        torch.cuda._sleep(int(self._cycles_s * min(2 * launch_s + 20e-6, self._LONGEST_LAUNCH_S)))
        begin.record()
        started = time.perf_counter()
        call()
        launched_s = time.perf_counter() - started
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3 + self._rest_s(), launched_s

    def _rest_s(self) -> float:
        """Wait for other streams, and return the seconds that they are busy after the current one; 0 where none is."""
        started = time.perf_counter()
        torch.cuda.synchronize()
        rest_s = time.perf_counter() - started
        return rest_s - self._idle_s if rest_s > _BUSY_TIMES * self._idle_s + _BUSY_S else 0.0


def clock_for(device: str) -> Clock:
    """Return the clock of a device, "cpu" or "cuda"."""
    return CpuClock() if device == "cpu" else GpuClock()
