"""Combines runs in several processes into one report, whose intervals include how much processes differ.

Where a process's memory lies, and which parts of it share a cache set, is settled when it starts, and changes times by more
than the rounds of one process can show (Mytkowicz et al., "Producing wrong data without doing anything obviously wrong!",
ASPLOS 2009). So each run is one sample here. Logarithms of times and ratios are taken to be roughly normal; the interval of
their mean is Student's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median, stdev

from opsmith.benchmark.result import BenchReport, Timing
from opsmith.benchmark.statistics import Interval, Verdict, judge

__all__ = ["combined"]

# Student's t for 95 %, by degrees of freedom; beyond the table the normal distribution's is near enough.
_T = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23, 15: 2.13, 20: 2.09}
_NORMAL = 1.96


def combined(reports: Sequence[BenchReport]) -> BenchReport:
    """Return runs of the same operator with the same options as one report; a single one comes back as it is.

    Raises ValueError for none, and for reports of different operators.
    """
    if not reports or len({report.operator for report in reports}) > 1:
        raise ValueError(f"{len(reports)} reports of {len({report.operator for report in reports})} operators")
    if len(reports) == 1:
        return reports[0]
    first = reports[0]
    keys = dict.fromkeys((t.workload, t.dtype, t.phase, t.competitor) for report in reports for t in report.timings)
    timings = []
    for key in keys:
        found = [timing for report in reports if (timing := report.find(*key)) is not None]
        timings.append(_timing(found))
    return replace(
        first,
        timings=tuple(timings),
        seconds=sum(report.seconds for report in reports),
        warnings=tuple(dict.fromkeys(warning for report in reports for warning in report.warnings)),
        conditions={"runs": len(reports), **{f"run {n}": report.conditions for n, report in enumerate(reports, 1)}},
    )


def _timing(found: Sequence[Timing]) -> Timing:
    """Return one timing of several runs: a run that went wrong is what counts, one without a time does not."""
    if wrong := next((timing for timing in found if timing.is_wrong or timing.has_failed), None):
        return wrong
    timed = [timing for timing in found if timing.time is not None]
    if not timed:
        return found[0]
    first = timed[0]
    time = _interval([timing.time for timing in timed if timing.time is not None])
    assert first.time is not None
    kernels = [timing.kernel_s for timing in timed if timing.kernel_s is not None]
    return replace(
        first,
        time=time,
        wall=_interval([timing.wall for timing in timed if timing.wall is not None]),
        verdict=_verdict([timing.verdict for timing in timed if timing.verdict is not None]),
        wall_verdict=_verdict([timing.wall_verdict for timing in timed if timing.wall_verdict is not None]),
        share=None if first.share is None else first.share * first.time.middle / time.middle,
        peak_bytes=max((timing.peak_bytes for timing in timed if timing.peak_bytes is not None), default=None),
        rounds=sum(timing.rounds for timing in timed),
        prepare_s=max(timing.prepare_s for timing in timed),
        notes=tuple(dict.fromkeys(note for timing in timed for note in timing.notes)),
        kernel_s=fmean(kernels) if kernels else None,
    )


def _verdict(found: Sequence[Verdict]) -> Verdict | None:
    if not found:
        return None
    # One run that was disturbed is in the interval already.
    return judge(_interval([verdict.ratio for verdict in found]), median(verdict.noise for verdict in found))


def _interval(found: Sequence[Interval]) -> Interval:
    """Return the geometric mean of the medians, with its interval by how far they are apart."""
    if len(found) == 1:
        return found[0]
    logs = [math.log(interval.middle) for interval in found]
    half = _t(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    middle = math.exp(fmean(logs))
    # Runs that agree by chance are not surer than their own intervals are.
    own = fmean(interval.half_width for interval in found) / math.sqrt(len(found))
    half = max(half, own)
    return Interval(middle, middle * math.exp(-half), middle * math.exp(half))


def _t(freedom: int) -> float:
    known = [count for count in _T if count <= freedom]
    return _T[max(known)] if freedom <= max(_T) else _NORMAL
