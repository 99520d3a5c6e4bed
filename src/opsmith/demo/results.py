"""Holds what a run of the demo has found, and says what of it is not as promised."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from opsmith.benchmark.result import BenchReport
from opsmith.checker.as_json import report_as_json
from opsmith.checker.report import Report
from opsmith.demo.agreement import Agreement
from opsmith.demo.builds import Build
from opsmith.demo.slopes import Slope
from opsmith.demo.training import TARGET, Run, gain_of
from opsmith.spec.definition import Device

__all__ = ["Results"]


@dataclass(frozen=True)
class Results:
    """Everything that the report is made of.

    `gpu_missing` says why there is no GPU in it, or is None; `training_build_s` is what the build of the operator took
    that only the trainings call.
    """

    machine: Mapping[str, Any]
    devices: tuple[Device, ...]
    gpu_missing: str | None
    quick: bool
    seed: int
    builds: tuple[Build, ...]
    agreement: Agreement
    checks: tuple[Report, ...]
    slopes: tuple[Slope, ...]
    benchmarks: tuple[BenchReport, ...]
    training_build_s: float
    runs: tuple[Run, ...]
    seconds: float
    date: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))

    @property
    def failures(self) -> tuple[str, ...]:
        """What is not as promised; nothing if all is well. A quick run does not ask for an accuracy."""
        found = [] if self.agreement.is_total else [_disagreement(self.agreement)]
        found += [f"{report.operator} fails {', '.join(report.failed)}" for report in self.checks if not report.ok]
        found += [
            f"the gradient is wrong at a candidate gate of {slope.gate:g} on {slope.device}"
            for slope in [slope for slope in self.slopes if not slope.is_right][:1]
        ]
        found += [
            f"{report.operator} gives wrong results where it is timed" for report in self.benchmarks if not report.ok
        ]
        if (gain := gain_of(self.runs)) is not None and gain < 1:
            found.append(f"training with the kernels is slower than with plain PyTorch: {gain:.2f}x")
        if not self.quick:
            found += [
                f"{run.variant} reached a test accuracy of {run.accuracy:.2%}; {TARGET:.0%} is the least"
                for run in self.runs
                if run.accuracy < TARGET
            ]
        return tuple(found)

    def to_json(self) -> str:
        """Return everything as JSON; infinities and NaN become null."""
        content = {"failures": self.failures, **dataclasses.asdict(self)}
        content["checks"] = [report_as_json(report) for report in self.checks]
        return json.dumps(_plain(content), indent=2, allow_nan=False)


def _disagreement(agreement: Agreement) -> str:
    if agreement.differences:
        return f"the libraries do not agree: {agreement.differences[0]}"
    return "fewer than two libraries could be built, so they cannot be compared"


def _plain(value: object) -> object:
    """Return a value that JSON can hold."""
    match value:
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case float() if not math.isfinite(value):
            return None
    return value
