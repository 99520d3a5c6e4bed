"""Holds the results of a profile: for each size and phase the parts of a call, and on a GPU its kernels."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any

from opsmith._drawing import text_of
from opsmith._version import __version__
from opsmith.benchmark.machine import Machine
from opsmith.benchmark.statistics import Interval

__all__ = ["FORMAT", "CallProfile", "Gpu", "Kernel", "Part", "ProfileReport"]

FORMAT = 1


@dataclass(frozen=True)
class Part:
    """One part of a call: its seconds, and what part of the whole that is. `what` says what happens in it."""

    name: str
    what: str
    time: Interval
    share: float


@dataclass(frozen=True)
class Kernel:
    """One kernel that a call launches on a GPU; None is what could not be found out.

    `time` is its seconds, and `launches` how many of them a call makes. `local_bytes` is the memory of a thread that lies
    beside its registers, in the GPU's memory: what spilled, and arrays that are indexed. `occupancy` is the part of the
    GPU's warps that the launch can keep resident, as PyTorch's profiler computes it from registers, shared memory and grid.
    """

    name: str
    time: Interval
    launches: float
    grid: tuple[int, ...]
    block: tuple[int, ...]
    registers: int | None = None
    shared_bytes: int | None = None
    local_bytes: int | None = None
    occupancy: float | None = None


@dataclass(frozen=True)
class Gpu:
    """What the GPU does in a call. Times are seconds of one call.

    `busy` is the sum of what runs on the GPU, `gap_s` the median time between two of them that follow each other in one
    call, seen under the profiler; None if a call launches one. `wall` is the time of a call where many are made in a row,
    and `host` what the program's thread takes to launch one. `bandwidth` is the definition's bytes over `busy`, in bytes a
    second, and `of_ceiling` what part that is of what a copy reaches on this GPU.
    """

    kernels: tuple[Kernel, ...]
    busy: Interval
    wall: Interval
    host: Interval
    gap_s: float | None
    bytes_moved: int
    bandwidth: float
    of_ceiling: float
    ncu: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """What a faster operator would need: `host-bound`, `GPU-bound`, or `balanced` where the intervals overlap."""
        if self.host.low > self.busy.high:
            return "host-bound"
        return "GPU-bound" if self.busy.low > self.host.high else "balanced"


@dataclass(frozen=True)
class CallProfile:
    """Where the time of one call goes, in one size, type and phase.

    `whole` is the time of a call as a program in Python makes it; on a GPU, of launching it. The parts follow each other and
    are of the operator's timed twin. `agreement` is what the twin takes, less its clocks, as a part of `whole`: how far it
    is from 1 is how far the parts can be believed. There are no parts, and no agreement, where the call comes to no
    operator of opsmith's. `notes` say what could not be separated.
    """

    workload: str
    dtype: str
    phase: str
    whole: Interval
    parts: tuple[Part, ...]
    agreement: Interval | None
    rounds: int
    notes: tuple[str, ...] = ()
    gpu: Gpu | None = None

    @property
    def uncertainty(self) -> float:
        """How far the sum of the parts may be from the whole, as a part of it; 0 if there are no parts."""
        if self.agreement is None:
            return 0.0
        summed = sum(part.time.middle for part in self.parts) / self.whole.middle
        return max(abs(self.agreement.low - 1), abs(self.agreement.high - 1), abs(summed - 1))

    @property
    def is_believable(self) -> bool:
        """Whether the parts add up: a clock that changes what it measures is worthless."""
        return self.uncertainty < _BELIEVABLE


@dataclass(frozen=True)
class ProfileReport:
    """The profile of one operator on one device."""

    operator: str
    machine: Machine
    calls: tuple[CallProfile, ...]
    seed: int
    seconds: float
    warnings: tuple[str, ...] = ()
    date: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))

    @property
    def ok(self) -> bool:
        """Whether the parts add up wherever there are any."""
        return bool(self.calls) and all(call.is_believable for call in self.calls)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON has it, with what follows from its figures."""
        content = {"format": FORMAT, "opsmith": __version__, **asdict(self), "ok": self.ok}
        for read, call in zip(content["calls"], self.calls, strict=True):
            read |= {"uncertainty": call.uncertainty, "is_believable": call.is_believable}
            if call.gpu is not None:
                read["gpu"]["verdict"] = call.gpu.verdict
        return content

    def to_json(self) -> str:
        """Return the report as a JSON text."""
        return json.dumps(self.as_json(), indent=2) + "\n"

    def __str__(self) -> str:
        return text_of(self)


# Parts that are off by more than this together are not an answer.
_BELIEVABLE = 0.25
