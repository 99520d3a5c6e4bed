"""How long does a call take? On the CPU by the clock; on a GPU by events around each call and by the clock over many.

On a GPU the two say different things. Between events the work of one call is timed as the GPU sees it, behind a kernel
that empties the second-level cache and keeps the GPU busy until the call is launched; by the clock, many calls in a row
are timed as a program sees them, with what Python and the dispatcher take.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any, Protocol

import torch

__all__ = ["Clock", "CpuClock", "GpuClock", "Sample", "clock_for"]

Call = Callable[[], Any]

# A sample by the clock is as many calls as take about so long: a hundred thousand ticks of the clock, and longer than most
# interruptions by the system take to be noticed.
SAMPLE_S = 0.003


@dataclass(frozen=True)
class Sample:
    """Seconds of one call: `wall_s` by the clock, `device_s` as the GPU sees it (on the CPU they are one)."""

    wall_s: float
    device_s: float


class Clock(Protocol):
    """What takes samples on one kind of device."""

    def sample(self, calls: Sequence[Call], repeats: int) -> Sample:
        """Make so many calls, going round through `calls`, and return the seconds of one."""
        ...

    def estimate(self, calls: Sequence[Call]) -> float:
        """Return roughly how long one call takes by the clock, in seconds."""
        ...


def repeats_for(seconds: float) -> int:
    """Return how many calls make a sample."""
    return max(1, min(100_000, round(SAMPLE_S / max(seconds, 1e-9))))


class CpuClock:
    """Times calls on the CPU."""

    def sample(self, calls: Sequence[Call], repeats: int) -> Sample:
        """Make so many calls, going round through `calls`, and return the seconds of one."""
        rounds = _in_turn(calls, repeats)
        started = time.perf_counter()
        for call in rounds:
            call()
        seconds = (time.perf_counter() - started) / repeats
        return Sample(seconds, seconds)

    def estimate(self, calls: Sequence[Call]) -> float:
        """Return roughly how long one call takes, in seconds: the shortest of a few."""
        return min(self.sample(calls[index % len(calls) :], 1).wall_s for index in range(5))


class GpuClock:
    """Times calls on a GPU; all of them on the current stream of the current device."""

    # Calls between events in one sample: enough for a median, few enough to take turns often.
    _EVENTS = 5

    @cached_property
    def _flush(self) -> torch.Tensor:
        """Memory that is more than three times the second-level cache; writing it pushes everything else out."""
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        size = getattr(properties, "L2_cache_size", 0) or 64 << 20
        return torch.empty(3 * size + (1 << 20), dtype=torch.int8, device="cuda")

    def sample(self, calls: Sequence[Call], repeats: int) -> Sample:
        """Return the seconds of one call: the median between events, and the mean by the clock of `repeats` in a row."""
        device = []
        pairs = [
            (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(self._EVENTS)
        ]
        torch.cuda.synchronize()
        for (begin, end), call in zip(pairs, _in_turn(calls, self._EVENTS), strict=True):
            self._flush.zero_()
            begin.record()
            call()
            end.record()
        torch.cuda.synchronize()
        device = [begin.elapsed_time(end) * 1e-3 for begin, end in pairs]
        rounds = _in_turn(calls, repeats)
        started = time.perf_counter()
        for call in rounds:
            call()
        torch.cuda.synchronize()
        return Sample((time.perf_counter() - started) / repeats, median(device))

    def estimate(self, calls: Sequence[Call]) -> float:
        """Return roughly how long one call takes by the clock, in seconds."""
        torch.cuda.synchronize()
        started = time.perf_counter()
        for call in _in_turn(calls, 5):
            call()
        torch.cuda.synchronize()
        return (time.perf_counter() - started) / 5


def clock_for(device: str) -> Clock:
    """Return the clock of a device, "cpu" or "cuda"."""
    return CpuClock() if device == "cpu" else GpuClock()


def _in_turn(calls: Sequence[Call], count: int) -> list[Call]:
    return [calls[index % len(calls)] for index in range(count)]
