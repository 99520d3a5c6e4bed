"""Turns samples into a timing with its verdict and its share of the machine's limit, if it is plausible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from opsmith.benchmark.ceilings import Ceilings
from opsmith.benchmark.competitors import Phase
from opsmith.benchmark.machine import cache_bytes
from opsmith.benchmark.measure import Measurement, Series
from opsmith.benchmark.result import Timing
from opsmith.benchmark.work import Work
from opsmith.benchmark.workload import Workload

__all__ = ["Figures"]

# A machine that gets slower or faster by this part during the rounds of one size is reported; ratios stay right.
_DRIFT = 0.1
# What one call moves is more than any cache if it is so many times the last one.
_TIMES_CACHE = 3


class Figures:
    """Makes timings, by the limits of the machine. `measure_again` gives limits measured anew, where one was passed."""

    def __init__(self, ceilings: Ceilings, measure_again: Callable[[], Ceilings]) -> None:
        self.ceilings = ceilings
        self._measure_again: Callable[[], Ceilings] | None = measure_again

    def timing(
        self, workload: Workload, phase: Phase, name: str, measured: Measurement, work: Work, *, is_cold: bool
    ) -> Timing:
        """Return the timing of one competitor; `is_cold` says that its inputs come from memory, not from a cache."""
        series = measured.series[name]
        least_s, bound = self.ceilings.seconds(work.moved, work.flops, workload.dtype)
        if least_s < self.ceilings.launch_s:
            bound = "launch"
        time = series.device
        share: float | None = least_s / time.middle
        if least_s == 0.0 or (bound == "bandwidth" and not is_cold and share is not None and share > 1):
            # Memory does not limit what does not use it.
            share, bound = None, "cache" if least_s else ""
        operator = next(iter(measured.series))
        is_cpu = workload.device == "cpu"
        verdict = None if name == operator else measured.verdict(operator, name)
        return Timing(
            workload.label,
            workload.dtype,
            phase,
            name,
            time,
            time if is_cpu else series.wall,
            verdict,
            # On the CPU there is one clock.
            verdict if is_cpu or name == operator else measured.verdict(operator, name, "wall"),
            share,
            bound,
            work.moved,
            work.flops,
            rounds=len(series.wall_s),
            notes=tuple(_notes(measured.series[name], is_cold=is_cold)),
        )

    def believed(
        self, timings: dict[str, Timing], workload: Workload, work: Work, *, is_cold: bool
    ) -> dict[str, Timing]:
        """Return timings with an error in those that are faster than the machine can be.

        Where the reference is, too, it does not read all of its inputs, as a look-up in a table does not: the bytes of the
        definition are not a limit then, and no share of it is given.
        """
        read, written = _uncached(workload, work, is_cold=is_cold)
        if not any(self._is_impossible(timing, read, written) for timing in timings.values()):
            return timings
        if self._measure_again is not None:
            # Once: other programs may have had the memory too when the limits were measured.
            self.ceilings, self._measure_again = self._measure_again(), None
        fast = {name for name, timing in timings.items() if self._is_impossible(timing, read, written)}
        if "eager" in fast:
            note = "a call moves less memory than its inputs and outputs occupy, so there is no limit to compare with"
            return {n: replace(t, share=None, bound="", notes=(*t.notes, note)) for n, t in timings.items()}
        return {name: self._doubted(timing) if name in fast else timing for name, timing in timings.items()}

    def _doubted(self, timing: Timing) -> Timing:
        assert timing.time is not None
        least_s, bound = self.ceilings.seconds(timing.bytes_moved, timing.flops, timing.dtype)
        share = least_s / timing.time.middle
        error = f"wrong figure: {share:.2f} times what the machine's {bound} allows; do not trust the measurement"
        return replace(timing, share=share, error=timing.error or error)

    def _is_impossible(self, timing: Timing, read: int, written: int) -> bool:
        assert timing.time is not None
        return timing.time.high < self.ceilings.possible_seconds(read, written, timing.flops)


def _uncached(workload: Workload, work: Work, *, is_cold: bool) -> tuple[int, int]:
    """Return the bytes of a call that must come from memory and go to it, because no cache holds them."""
    if work.moved > _TIMES_CACHE * cache_bytes(workload.device):
        return work.read, work.written
    # What a call writes may stay in the cache, where the next call's results take its place.
    return (work.read if is_cold else 0), 0


def _notes(series: Series, *, is_cold: bool) -> list[str]:
    notes = []
    if not is_cold:
        notes.append("the inputs stay in the cache")
    if not series.is_steady:
        notes.append("it was still getting faster when its warm-up was over")
    if abs(series.drift) > _DRIFT:
        word = "longer" if series.drift > 0 else "less long"
        notes.append(f"its calls took {abs(series.drift):.0%} {word} at the end than at the beginning")
    return notes
