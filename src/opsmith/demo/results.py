"""What a run of the demo found, as data: the verdict, the tables, and the JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from opsmith.demo.agreement import Agreement, agreement_table
from opsmith.demo.builds import Build, are_identical, build_table
from opsmith.demo.digits import Digits
from opsmith.demo.exactness import ErrorRow, error_table
from opsmith.demo.machine import Machine, machine_table
from opsmith.demo.slopes import Slope, slope_table
from opsmith.demo.table import GOOD, NEITHER, Finding, Table, mark
from opsmith.demo.timing import Timing, timing_table
from opsmith.demo.training import TARGET, Run, training_table
from opsmith.spec.definition import Device

__all__ = ["Results"]


@dataclass(frozen=True)
class Results:
    """Everything that the report is made of. `gpu_missing` says why there is no GPU in it, or is None."""

    machine: Machine
    devices: tuple[Device, ...]
    gpu_missing: str | None
    quick: bool
    seed: int
    builds: tuple[Build, ...]
    agreement: Agreement
    errors: tuple[ErrorRow, ...]
    slopes: tuple[Slope, ...]
    timings: tuple[Timing, ...]
    runs: tuple[Run, ...]
    seconds: float

    @property
    def failures(self) -> tuple[str, ...]:
        """What is not as promised; nothing where all is well. A quick run does not ask for an accuracy."""
        found = []
        if not self.agreement.is_total:
            found.append(_agreement_failure(self.agreement))
        wrong = [row for row in self.errors if not row.is_within]
        if wrong:
            worst = max(wrong, key=lambda row: row.error_eps / row.tolerance_eps)
            found.append(
                f"{len(wrong)} errors are too large; the worst is the {worst.what} of {worst.operator} in {worst.dtype} on "
                f"{worst.device}: {worst.error_eps:.2f} epsilon, {worst.tolerance_eps:g} are granted"
            )
        points = [slope for slope in self.slopes if not slope.is_right]
        if points:
            found.append(f"the gradient is wrong at a candidate gate of {points[0].gate:g} on {points[0].device}")
        if not self.quick:
            found += [
                f"{run.variant} reached a test accuracy of {run.accuracy:.2%}; {TARGET:.0%} is the least"
                for run in self.runs
                if run.accuracy < TARGET
            ]
        return tuple(found)

    @property
    def summary(self) -> tuple[Finding, ...]:
        """The findings, in a line each."""
        left_out = [Finding(NEITHER, "left out", f"{b.builder}: {b.left_out}") for b in self.builds if b.left_out]
        numbers = sum(tally.numbers for tally in self.agreement.tallies)
        right = sum(row.is_within for row in self.errors)
        points = sum(slope.is_right for slope in self.slopes)
        published = sum(slope.is_published_right for slope in self.slopes)
        exact = f"{right} of {len(self.errors)} errors against float64 are within what is granted"
        gradient = f"right at {points} of {len(self.slopes)} hard points; the published formula at {published}"
        return (
            Finding(GOOD, "built", _build_times(self.builds)),
            *left_out,
            Finding(mark(self.agreement.is_total), "agree", f"{numbers:,} numbers compared, bit by bit"),
            Finding(mark(right == len(self.errors)), "exact", exact),
            Finding(mark(points == len(self.slopes)), "gradient", gradient),
            _speed(self.timings),
            self._training(),
        )

    def _training(self) -> Finding:
        first = self.runs[0]
        is_enough = self.quick or all(run.accuracy >= TARGET for run in self.runs)
        asked = "not asked for in a quick run" if self.quick else f"{TARGET:.0%} asked for"
        return Finding(
            mark(is_enough), "trained", f"{first.accuracy:.2%} of {len(first.predictions)} test digits right ({asked})"
        )

    def tables(self, digits: Digits) -> tuple[Table, ...]:
        """Return the tables of the report, in its order."""
        return (
            build_table(self.builds, self.devices),
            agreement_table(self.agreement),
            error_table(self.errors),
            slope_table(self.slopes),
            timing_table(self.timings, self.machine.threads),
            training_table(self.runs, digits, self.seed),
            machine_table(self.machine),
        )

    def to_json(self) -> str:
        """Return everything as JSON; infinities and NaN become null."""
        content = {"failures": self.failures, **dataclasses.asdict(self)}
        return json.dumps(_plain(content), indent=2, allow_nan=False)


def _build_times(builds: Sequence[Build]) -> str:
    done = [build for build in builds if build.left_out is None]
    times = ", ".join(f"{build.builder} {build.seconds:.1f} s" for build in done)
    return f"{times}, byte for byte the same" if len(done) > 1 and are_identical(done) else times


def _speed(timings: Sequence[Timing]) -> Finding:
    """Say how much faster the kernels are; being slower is no failure, for a machine may be busy."""
    kernels = [timing for timing in timings if not timing.is_reference]
    ratios = [
        f"{timing.ratio.median:.2f}x at " + "B{} I{} S{}".format(*timing.size) + f" on {timing.device}"
        for timing in kernels
    ]
    is_faster = all(timing.ratio.median >= 1 for timing in kernels)
    return Finding(GOOD if is_faster else NEITHER, "speed", f"{', '.join(ratios)}, against the reference")


def _agreement_failure(agreement: Agreement) -> str:
    if agreement.differences:
        return f"the libraries do not agree: {agreement.differences[0]}"
    return "fewer than two libraries could be built, so nothing shows that they agree"


def _plain(value: object) -> object:
    """Return a value that JSON can hold."""
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case float() if not math.isfinite(value):
            return None
    return value
