"""Has something become slower since an earlier report? By the times of both, each with its own interval."""

from __future__ import annotations

from dataclasses import dataclass

from opsmith.bench.measure import LEAST_DIFFERENCE
from opsmith.bench.result import BenchReport, Timing
from opsmith.errors import ArgumentError

__all__ = ["Change", "compare_reports"]


@dataclass(frozen=True)
class Change:
    """One timing then and now. `times_slower` is above 1 where it has become slower; `is_real` says beyond the noise."""

    place: str
    before_s: float
    now_s: float
    is_real: bool

    @property
    def times_slower(self) -> float:
        """How many times the earlier time the present one is."""
        return self.now_s / self.before_s

    @property
    def is_regression(self) -> bool:
        """Whether it has become slower beyond the noise."""
        return self.is_real and self.now_s > self.before_s


def compare_reports(before: BenchReport, now: BenchReport) -> tuple[Change, ...]:
    """Return how each timing that both reports have has changed, those of the operator itself alone.

    The machine may be slower today than it was then. So the operator's time is taken relative to the eager reference's
    of the same run, where both reports have it. Raises ArgumentError where the reports are of different operators, or of
    different devices or versions of torch, whose figures say nothing about each other.
    """
    for what, one, other in (
        ("operator", before.operator, now.operator),
        ("machine", before.machine.name, now.machine.name),
        ("torch", before.machine.torch, now.machine.torch),
        ("threads", before.machine.threads, now.machine.threads),
    ):
        if one != other:
            raise ArgumentError(f"the reports cannot be compared: the {what} was {one} and is {other}")
    changes = []
    for timing in now.timings:
        old = before.find(timing.workload, timing.dtype, timing.phase, timing.competitor)
        if timing.competitor not in ("opsmith", "operator") or old is None or old.time is None or timing.time is None:
            continue
        changes.append(_change(before, now, old, timing))
    return tuple(changes)


def _change(before: BenchReport, now: BenchReport, old: Timing, new: Timing) -> Change:
    assert old.time is not None
    assert new.time is not None
    scale, noise = _machine_factor(before, now, new)
    low, high = new.time.low / (old.time.high * scale), new.time.high / (old.time.low * scale)
    band = max(LEAST_DIFFERENCE, noise)
    is_real = low > 1 + band or high < 1 / (1 + band)
    place = f"{new.dtype}, {new.workload}, {new.phase}"
    return Change(place, old.time.middle * scale, new.time.middle, is_real)


def _machine_factor(before: BenchReport, now: BenchReport, timing: Timing) -> tuple[float, float]:
    """Return how much slower the reference is now, and how sure that is not: its intervals' widths."""
    key = (timing.workload, timing.dtype, timing.phase, "eager")
    old, new = before.find(*key), now.find(*key)
    if old is None or new is None or old.time is None or new.time is None:
        return 1.0, LEAST_DIFFERENCE
    return new.time.middle / old.time.middle, old.time.half_width + new.time.half_width
