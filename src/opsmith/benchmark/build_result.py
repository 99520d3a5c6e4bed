"""Holds the results of a comparison of builds: the times to build, to load and to call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from statistics import median
from typing import Any

from opsmith._drawing import text_of
from opsmith._version import __version__
from opsmith.benchmark.machine import Machine
from opsmith.benchmark.statistics import Interval, Verdict

__all__ = ["BuildReport", "BuildTimes", "CallTimes", "Spread"]

_FORMAT = 1


@dataclass(frozen=True)
class Spread:
    """The median of a few times in seconds, and the least and the most of them: too few for an interval."""

    median_s: float
    least_s: float
    most_s: float
    count: int

    @classmethod
    def of(cls, seconds: tuple[float, ...]) -> Spread:
        """Return the spread of at least one time."""
        return cls(median(seconds), min(seconds), max(seconds), len(seconds))


@dataclass(frozen=True)
class BuildTimes:
    """What one builder takes, in seconds; `left_out` says why there is nothing.

    `cold_s` are builds with an empty store, in which the compilers are identified. `again_s` are builds of other
    sources with the same store, as after an edit of the definition. `load_s` are first loads in new processes: the
    JIT's by `op.load()`, which finds the artefact in the store and registers everything, the others' by
    `torch.ops.load_library`. The library is that of the first cold build.
    """

    builder: str
    cold_s: tuple[float, ...] = ()
    again_s: tuple[float, ...] = ()
    load_s: tuple[float, ...] = ()
    size_bytes: int = 0
    sha256: str = ""
    left_out: str = ""


@dataclass(frozen=True)
class CallTimes:
    """Calls of all builds in one size: seconds of a call, and a verdict on each against the JIT's.

    Each build is there in several copies, and its time is the mean of theirs. `noise` is what the addresses of
    libraries in memory can make equal builds differ by, as a part: no smaller difference is called one. `differing` are
    builders whose operator gives other bits than the JIT's, where that gives the same bits twice.
    """

    workload: str
    dtype: str
    times: Mapping[str, Interval]
    verdicts: Mapping[str, Verdict]
    rounds: int
    noise: float
    differing: tuple[str, ...] = ()


@dataclass(frozen=True)
class BuildReport:
    """The builds of one operator's module, compared."""

    operator: str
    machine: Machine
    builds: tuple[BuildTimes, ...]
    calls: tuple[CallTimes, ...]
    seconds: float
    date: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))

    @property
    def ok(self) -> bool:
        """Whether all builds give the same results."""
        return not any(call.differing for call in self.calls)

    @property
    def are_identical(self) -> bool:
        """Whether all libraries have the same bytes."""
        return len({build.sha256 for build in self.builds if not build.left_out}) == 1

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        found = {"format": _FORMAT, "opsmith": __version__, **asdict(self)}
        return {**found, "ok": self.ok, "are_identical": self.are_identical}

    def to_json(self) -> str:
        """Return the report as a JSON text."""
        return json.dumps(self.as_json(), indent=2) + "\n"

    def __str__(self) -> str:
        return text_of(self)
