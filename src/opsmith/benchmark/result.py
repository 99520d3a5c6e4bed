"""Holds the results of a benchmark: a timing for each competitor, size, type and phase, and the machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from typing import Any

from opsmith._drawing import text_of
from opsmith._version import __version__
from opsmith.benchmark.machine import Machine
from opsmith.benchmark.statistics import Interval, Verdict

__all__ = ["FORMAT", "OWN", "BenchReport", "Timing"]

FORMAT = 1
# What the operator itself is called among the competitors: one of opsmith's, or of another tool's.
OWN = ("opsmith", "operator")


@dataclass(frozen=True)
class Timing:
    """One competitor at one phase of one size.

    `time` is the time of one call as the device sees it and `wall` that by the clock, in seconds. `verdict` says how many
    times as fast the operator is as this competitor, by the device's time, `wall_verdict` by the clock's; both are None for
    the operator itself.
    `share` is the part of the machine's limit that is reached, `bound` what the limit is (bandwidth, compute, launch).
    `peak_bytes` is the memory that a call needs beside its inputs, None if that was not measured. `error` says why
    there is no time, and begins with `not timed`, `failed` or `wrong`. `kernel_s` is what the kernels of one call take by
    themselves, in seconds, as CUPTI has it, and `kernels` how many there are; both are None if that is not known.
    """

    workload: str
    dtype: str
    phase: str
    competitor: str
    time: Interval | None = None
    wall: Interval | None = None
    verdict: Verdict | None = None
    wall_verdict: Verdict | None = None
    share: float | None = None
    bound: str = ""
    bytes_moved: int = 0
    flops: int = 0
    peak_bytes: int | None = None
    rounds: int = 0
    prepare_s: float = 0.0
    error: str = ""
    notes: tuple[str, ...] = ()
    kernel_s: float | None = None
    kernels: int | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether a result or a figure is wrong: the benchmark then has found a defect, and says so by its exit code."""
        return self.error.startswith("wrong")

    @property
    def has_failed(self) -> bool:
        """Whether calling it has failed; what there was no time for has not."""
        return self.error.startswith("failed")

    @property
    def is_own(self) -> bool:
        """Whether it is the operator's own, and no competitor's."""
        return self.competitor in OWN


@dataclass(frozen=True)
class BenchReport:
    """The benchmark of one operator on one device.

    `conditions` says what the machine was like before and after: its load, or a GPU's clocks, temperature and power.
    """

    operator: str
    machine: Machine
    timings: tuple[Timing, ...]
    seed: int
    seconds: float
    warnings: tuple[str, ...] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)
    conditions: Mapping[str, Any] = field(default_factory=dict)
    date: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))

    @property
    def ok(self) -> bool:
        """Whether the operator did not fail, and all that was timed gave right results and no impossible figure."""
        return not any(timing.is_wrong or (timing.is_own and timing.has_failed) for timing in self.timings)

    def find(self, workload: str, dtype: str, phase: str, competitor: str) -> Timing | None:
        """Return one timing, or None."""
        key = (workload, dtype, phase, competitor)
        return next((t for t in self.timings if (t.workload, t.dtype, t.phase, t.competitor) == key), None)

    def to_json(self) -> str:
        """Return the report as JSON; `from_json` reads it again."""
        return json.dumps({"format": FORMAT, "opsmith": __version__, **asdict(self)}, indent=2) + "\n"

    def __str__(self) -> str:
        return text_of(self)

    @classmethod
    def from_json(cls, text: str) -> BenchReport:
        """Return the report of a JSON text; raises ValueError if it is not one, or of another format."""
        try:
            content = json.loads(text)
            if content["format"] != FORMAT:
                raise ValueError(f"the format is {content['format']}, not {FORMAT}")
            known = {item.name: content[item.name] for item in fields(cls)}
            known |= {"machine": Machine(**content["machine"]), "warnings": tuple(content["warnings"])}
            return cls(**{**known, "timings": tuple(map(_timing, content["timings"]))})
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is not a report of opsmith bench ({error!r})") from None


def _timing(content: dict[str, Any]) -> Timing:
    read = dict(content)
    for name in ("time", "wall"):
        read[name] = None if read[name] is None else Interval(**read[name])
    for name in ("verdict", "wall_verdict"):
        found = read[name]
        read[name] = None if found is None else Verdict(found["kind"], Interval(**found["ratio"]), found["noise"])
    read["notes"] = tuple(read["notes"])
    return Timing(**read)
