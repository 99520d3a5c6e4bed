"""Finds operators that have become slower since an earlier report, by ratios taken within each run.

The machine may be slower today than it was then. So not the operator's time alone is compared but its speed relative to the
reference, in rounds of the same run: what slows both cancels. The reference may be slower for a reason of its own, as one
with many threads is beside another program; so the operator's own time has to have changed in the same direction.

The two runs are independent, and the logarithms of their ratios are taken to be roughly normal, so the half-widths of their
intervals add as squares. Many sizes are many chances for a false alarm: the intervals are widened until all of them
together hold with 95 % (Bonferroni's correction).

A report of several processes includes how much processes differ, one of a single process does not. The side with fewer
processes gets intervals as wide as those of so few processes would be on the other side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from opsmith.benchmark.machine import Machine
from opsmith.benchmark.result import BenchReport, Timing
from opsmith.benchmark.statistics import Interval
from opsmith.errors import ArgumentError

__all__ = ["TOLERANCE", "Change", "Comparison", "compare_reports", "refuse_other_machine"]

# Two runs of the same program differ by this at least. Where memory falls in caches makes it more: see runs.py.
TOLERANCE = 0.03
_LEVEL = 0.95
_BASELINE = "eager"


@dataclass(frozen=True)
class Change:
    """One timing of an operator then and now.

    `clock` is "device" or, on a GPU beside that, "wall". `times_as_long` is above 1 where the operator has become slower
    relative to `against`, the competitor whose time was taken in each run, and `absolute` is the same of its own time; both
    are one where `against` is "", because none is in both reports. `noise` is how large a difference means nothing.
    """

    operator: str
    dtype: str
    workload: str
    phase: str
    clock: Literal["device", "wall"]
    before_s: float
    now_s: float
    times_as_long: Interval
    absolute: Interval
    against: str
    noise: float

    @property
    def kind(self) -> Literal["slower", "faster", "equal"]:
        """What has become of it: surely so relative to its reference, and in the same direction by itself."""
        band = 1 + self.noise
        if self.times_as_long.low > band and self.absolute.middle > band:
            return "slower"
        return "faster" if self.times_as_long.high < 1 / band and self.absolute.middle < 1 / band else "equal"


@dataclass(frozen=True)
class Comparison:
    """What has become of what, and what was to be warned about in either run.

    `runs` is how many processes there were on the side that had more. `lost` had a time and now fails; `missing` has none
    any more, `new` had none.
    """

    changes: tuple[Change, ...]
    lost: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    runs: int = 1

    @property
    def ok(self) -> bool:
        """Whether nothing has become slower, and nothing that had a time now fails."""
        return not self.lost and all(change.kind != "slower" for change in self.changes)


def compare_reports(
    before: Iterable[BenchReport], now: Iterable[BenchReport], *, tolerance: float = TOLERANCE
) -> Comparison:
    """Return what has become of the operators of some reports since earlier ones.

    `tolerance` is the difference, as a part, below which nothing counts however quiet both runs were. Raises ArgumentError
    if the reports are of other devices, machines or versions of torch, whose figures say nothing about each other, and
    where they have nothing in common.
    """
    earlier = {report.operator: report for report in before}
    present = list(now)
    pairs, lost, missing, new = [], [], [], []
    for report in present:
        old = earlier.get(report.operator)
        if old is not None:
            refuse_other_machine(old, report.machine)
        had, has = {} if old is None else _timed(old), _timed(report)
        failed = {_key(t) for t in report.timings if t.is_own and (t.is_wrong or t.has_failed)}
        pairs += [(old, had[key], report, has[key]) for key in has if old is not None and key in had]
        lost += [_case_name(report, had[key]) for key in had if key in failed]
        missing += [_case_name(report, had[key]) for key in had if key not in has and key not in failed]
        new += [_case_name(report, has[key]) for key in has if key not in had]
    if not pairs and not lost:
        names = [", ".join(dict.fromkeys(report.operator for report in some)) for some in (earlier.values(), present)]
        raise ArgumentError(f"the reports have nothing in common: the earlier has {names[0]}, the new one {names[1]}")
    clocks = [(*pair, clock) for pair in pairs for clock in _clocks(pair[2])]
    changes = [_change(*item, tolerance, widen=_widening(len(clocks))) for item in clocks]
    runs = [min(map(_runs, reports)) for reports in (earlier.values(), present)]
    warnings = [f"then: {warning}" for report in earlier.values() for warning in report.warnings]
    warnings += [f"now: {warning}" for report in present for warning in report.warnings]
    return Comparison(
        tuple(changes), tuple(lost), tuple(missing), tuple(new), tuple(dict.fromkeys(warnings)), max(runs)
    )


def refuse_other_machine(before: BenchReport, now: Machine) -> None:
    """Raise ArgumentError if a report is of another device, machine or torch: its figures say nothing here."""
    old = before.machine
    facts = [("device", old.device, now.device), ("machine", old.name, now.name), ("torch", old.torch, now.torch)]
    if now.device == "cpu":
        facts.append(("number of threads", str(old.threads), str(now.threads)))
    for what, one, other in facts:
        if one != other:
            raise ArgumentError(
                f"the reports of {before.operator} cannot be compared: the {what} was {one} and is {other}. Create the "
                "earlier report again on this machine"
            )


def _key(timing: Timing) -> tuple[str, str, str]:
    return timing.dtype, timing.workload, timing.phase


def _timed(report: BenchReport) -> dict[tuple[str, str, str], Timing]:
    """Return the operator's own timings that can be compared."""
    return {_key(t): t for t in report.timings if t.is_own and t.time is not None and not t.is_wrong}


def _case_name(report: BenchReport, timing: Timing) -> str:
    return ", ".join(part for part in (report.operator, timing.dtype, timing.workload, timing.phase) if part)


def _clocks(report: BenchReport) -> tuple[Literal["device", "wall"], ...]:
    """On the CPU both clocks are one."""
    return ("device",) if report.machine.device == "cpu" else ("device", "wall")


def _change(
    before: BenchReport,
    old: Timing,
    now: BenchReport,
    new: Timing,
    clock: Literal["device", "wall"],
    tolerance: float,
    widen: float,
) -> Change:
    then_s, now_s = _time(old, clock), _time(new, clock)
    then, noise_then = _against_baseline(before, old, clock)
    present, noise_now = _against_baseline(now, new, clock)
    counts = _runs(before), _runs(now)
    before_s, after_s = _as_sure_as_runs(then_s, now_s, counts)
    absolute = times_as_long = _quotient(after_s, before_s, widen)
    against = ""
    if then is not None and present is not None:
        # Both are how many times as fast as the reference: what has fallen has become slower.
        times_as_long, against = _quotient(*_as_sure_as_runs(then, present, counts), widen), _BASELINE
    noise = max(tolerance, noise_then, noise_now)
    row = (now.operator, new.dtype, new.workload, new.phase)
    return Change(*row, clock, then_s.middle, now_s.middle, times_as_long, absolute, against, noise)


def _runs(report: BenchReport) -> int:
    return int(report.conditions.get("runs", 1))


def _as_sure_as_runs(then: Interval, now: Interval, counts: tuple[int, int]) -> tuple[Interval, Interval]:
    """Return both with the side of fewer processes no surer than the other's spread allows so few to be."""
    before, after = counts
    if before < after:
        return _no_surer(then, now, math.sqrt(after / before)), now
    return then, _no_surer(now, then, math.sqrt(before / after)) if after < before else now


def _no_surer(interval: Interval, other: Interval, times: float) -> Interval:
    half = max(math.log(other.high / other.middle), math.log(other.middle / other.low)) * times
    low, high = interval.middle * math.exp(-half), interval.middle * math.exp(half)
    return Interval(interval.middle, min(low, interval.low), max(high, interval.high))


def _time(timing: Timing, clock: str) -> Interval:
    found = timing.time if clock == "device" else timing.wall
    assert found is not None
    return found


def _against_baseline(report: BenchReport, timing: Timing, clock: str) -> tuple[Interval | None, float]:
    """Return how many times as fast an operator is as its reference in a report, and the noise of that."""
    baseline = report.find(timing.workload, timing.dtype, timing.phase, _BASELINE)
    verdict = None if baseline is None else baseline.verdict if clock == "device" else baseline.wall_verdict
    return (None, 0.0) if verdict is None else (verdict.ratio, verdict.noise)


def _quotient(above: Interval, below: Interval, widen: float) -> Interval:
    """Return the quotient of two independent figures: the half-widths of their logarithms add as squares."""
    middle = above.middle / below.middle
    up = widen * math.hypot(math.log(above.high / above.middle), math.log(below.middle / below.low))
    down = widen * math.hypot(math.log(above.middle / above.low), math.log(below.high / below.middle))
    return Interval(middle, middle * math.exp(-down), middle * math.exp(up))


def _widening(count: int) -> float:
    """Return how many times wider an interval of 95 % is if `count` of them are to hold jointly."""
    normal = NormalDist()
    outside = (1 - _LEVEL) / 2
    return normal.inv_cdf(1 - outside / max(1, count)) / normal.inv_cdf(1 - outside)
