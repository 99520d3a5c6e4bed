"""Watches the machine while it times: the load of other programs, and a GPU's clocks, heat and throttling."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from opsmith import _env
from opsmith._override import overridden
from opsmith.benchmark.machine import GpuState, gpu_state
from opsmith.runtime.operator import Operator
from opsmith.toolchain.resources import usable_cores

__all__ = [
    "Conditions",
    "CpuTimes",
    "load_at_once",
    "nothing_in_background",
    "read_cpu_times",
    "torch_threads",
    "warnings_of",
]

_STAT = Path("/proc/stat")
# Above this part of the cores in other programs' hands, figures are not what they would be alone.
_BUSY = 0.1
# A GPU clock that changes by this part between beginning and end is reported.
_CLOCK_CHANGED = 0.05


@dataclass(frozen=True)
class CpuTimes:
    """Seconds of time on this process's cores: of all programs, of this one with its children, and stolen.

    `stolen_s` is what a hypervisor gave to other machines; `clock_s` is when this was read.
    """

    all_s: float
    own_s: float
    stolen_s: float
    clock_s: float


@dataclass
class Conditions:
    """What is looked at when timing begins and when it is over."""

    device: str
    read_gpu: Callable[[], GpuState | None] = gpu_state
    read_cpu: Callable[[], CpuTimes | None] = field(default_factory=lambda: read_cpu_times)
    cores: int = field(default_factory=usable_cores)
    # Fixed while timing: a change is reported.
    threads: int = field(default_factory=torch.get_num_threads)

    def __post_init__(self) -> None:
        self._gpu = self.read_gpu() if self.device == "cuda" else None
        self._cpu = self.read_cpu()

    def finish(self) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return what was found, as JSON has it, and what is to be warned about."""
        after = self.read_gpu() if self.device == "cuda" else None
        cpu_after = self.read_cpu()
        others, stolen = _shares(self._cpu, cpu_after, self.cores)
        found: dict[str, Any] = {"threads": self.threads, "others_share": others, "stolen_share": stolen}
        if self._gpu is not None and after is not None:
            found |= {"gpu_before": self._gpu.as_json(), "gpu_after": after.as_json()}
        warned = list(warnings_of(self._gpu, after))
        if self.device == "cpu":
            warned += _load_warnings(others, stolen, self.cores)
        if (now := torch.get_num_threads()) != self.threads:
            warned.append(f"PyTorch's number of threads changed from {self.threads} to {now} during timing")
        return found, tuple(warned)


@contextmanager
def nothing_in_background() -> Iterator[None]:
    """Build at once, or not at all, what opsmith builds in the background else: it would run beside what is timed.

    The bridge is built now, because calls are timed as they will be; precompiled headers are not needed.
    """
    with ExitStack() as stack:
        for name, instead in (("OPSMITH_BRIDGE", "wait"), ("OPSMITH_PCH", "off")):
            if (_env.read(name) or "auto") == "auto":
                stack.enter_context(overridden(name, instead))
        yield


def load_at_once(operator: Operator | None) -> None:
    """Build and load an operator, where there is one, with nothing left to be built beside what is timed."""
    if operator is not None:
        with nothing_in_background():
            operator.load()


def read_cpu_times() -> CpuTimes | None:
    """Return the processor times, or None if the system does not have them as Linux does."""
    cores = {f"cpu{core}" for core in os.sched_getaffinity(0)} if hasattr(os, "sched_getaffinity") else set()
    busy = stolen = 0.0
    try:
        tick_s = 1 / os.sysconf("SC_CLK_TCK")
        for line in _STAT.read_text(encoding="ascii").splitlines():
            # Of a large machine a container may have a few cores, and what happens on the others is not its affair.
            name, *words = line.split()
            if name in cores:
                user, nice, system, _, _, irq, softirq, steal = (float(word) * tick_s for word in words[:8])
                busy, stolen = busy + user + nice + system + irq + softirq, stolen + steal
    except (OSError, ValueError):
        return None
    own = os.times()
    own_s = own.user + own.system + own.children_user + own.children_system
    return CpuTimes(busy, own_s, stolen, time.perf_counter())


def warnings_of(before: GpuState | None, after: GpuState | None) -> Iterator[str]:
    """Yield what is wrong with a GPU's states before and after timing."""
    for when, state in (("before", before), ("after", after)):
        if state is not None and state.is_throttled:
            yield (
                f"the GPU was throttled {when} timing: {state.sm_mhz:.0f} of {state.most_sm_mhz:.0f} MHz, "
                f"{state.celsius:.0f} C, {state.watts:.0f} W"
            )
    if before is not None and after is not None and abs(after.memory_mhz / before.memory_mhz - 1) > _CLOCK_CHANGED:
        yield f"the GPU's memory clock changed from {before.memory_mhz:.0f} to {after.memory_mhz:.0f} MHz"


def _shares(before: CpuTimes | None, after: CpuTimes | None, cores: int) -> tuple[float | None, float | None]:
    """Return which parts of the cores' time other programs took and a hypervisor stole."""
    if before is None or after is None or after.clock_s <= before.clock_s:
        return None, None
    whole = (after.clock_s - before.clock_s) * cores
    others = (after.all_s - before.all_s) - (after.own_s - before.own_s)
    return max(0.0, others / whole), max(0.0, (after.stolen_s - before.stolen_s) / whole)


def _load_warnings(others: float | None, stolen: float | None, cores: int) -> Iterator[str]:
    if others is not None and others > _BUSY:
        yield f"other programs took {others:.0%} of the {cores} cores meanwhile: an idle machine gives better figures"
    if stolen is not None and stolen > _BUSY:
        yield f"the hypervisor gave {stolen:.0%} of the cores' time to other machines during timing"


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Give PyTorch so many threads on the CPU; afterwards it has those from before, whatever changed them meanwhile."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
