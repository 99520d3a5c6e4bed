"""Reads what the GPU runs in some calls from a trace of PyTorch's profiler, which has CUPTI's activity records.

The trace is Chrome's format: `chrome://tracing` and https://ui.perfetto.dev show it. Kineto adds to each kernel its launch,
its registers and shared memory, and the occupancy that follows from them.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch

from opsmith.benchmark.statistics import Interval, median_interval
from opsmith.profiler.result import Kernel

__all__ = ["Activity", "activities", "busy_of", "gap_of", "kernels_of", "trace_calls"]

# What of a trace runs on the GPU.
_ON_GPU = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})


@dataclass(frozen=True)
class Activity:
    """One thing that ran on the GPU, from `begin_s` for `seconds`."""

    name: str
    begin_s: float
    seconds: float
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    registers: int | None = None
    shared_bytes: int | None = None
    occupancy: float | None = None


def trace_calls(call: Callable[[int], Any], count: int, device: str, file: Path | None = None) -> dict[str, Any]:
    """Make so many calls, given their numbers, under PyTorch's profiler; return the trace, and write it where wanted."""
    activity = torch.profiler.ProfilerActivity
    chosen = [activity.CPU, *([activity.CUDA] if device == "cuda" else [])]
    with tempfile.TemporaryDirectory(prefix="opsmith-profile-") as folder, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Profiler clears events.*")
        # Starting the profiler is not what the calls are to be seen beside.
        with torch.profiler.profile(activities=chosen):
            call(0)
        with torch.profiler.profile(activities=chosen) as profiler:
            for index in range(count):
                with torch.profiler.record_function(f"call {index + 1}"):
                    call(index)
            if device == "cuda":
                torch.cuda.synchronize()
        written = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(written))
        text = written.read_text(encoding="utf-8")
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def activities(trace: dict[str, Any]) -> list[Activity]:
    """Return what ran on the GPU, in order."""
    events = [event for event in trace.get("traceEvents", []) if event.get("cat") in _ON_GPU and "dur" in event]
    return [_activity(event) for event in sorted(events, key=lambda event: event["ts"])]


def kernels_of(found: Sequence[Activity], calls: int) -> tuple[Kernel, ...]:
    """Return the kernels of some calls, each launch configuration once, the one that takes most of the time first."""
    groups: dict[tuple[Any, ...], list[Activity]] = {}
    for one in found:
        groups.setdefault((one.name, one.grid, one.block), []).append(one)
    kernels = [
        Kernel(
            same[0].name,
            median_interval([one.seconds for one in same]),
            len(same) / calls,
            same[0].grid,
            same[0].block,
            same[0].registers,
            same[0].shared_bytes,
            occupancy=same[0].occupancy,
        )
        for same in groups.values()
    ]
    return tuple(sorted(kernels, key=lambda kernel: -kernel.time.middle * kernel.launches))


def busy_of(found: Sequence[Activity], calls: int) -> Interval:
    """Return how long the GPU works in a call, in seconds; raises ValueError if nothing ran on it."""
    if not found:
        raise ValueError("nothing ran on the GPU")
    if len(found) % calls:
        mean = sum(one.seconds for one in found) / calls
        return Interval(mean, mean, mean)
    return median_interval([sum(one.seconds for one in group) for group in _by_call(found, calls)])


def gap_of(found: Sequence[Activity], calls: int) -> float | None:
    """Return the median time between two that follow each other in one call; None if a call has one."""
    if len(found) % calls or len(found) == calls:
        return None
    gaps = [
        max(0.0, after.begin_s - before.begin_s - before.seconds)
        for group in _by_call(found, calls)
        for before, after in pairwise(group)
    ]
    return median(gaps)


def _by_call(found: Sequence[Activity], calls: int) -> list[Sequence[Activity]]:
    size = len(found) // calls
    return [found[index * size : (index + 1) * size] for index in range(calls)]


def _activity(event: dict[str, Any]) -> Activity:
    given = event.get("args", {})
    percent = given.get("est. achieved occupancy %")
    return Activity(
        event["name"],
        float(event["ts"]) * 1e-6,
        float(event["dur"]) * 1e-6,
        tuple(given.get("grid", ())),
        tuple(given.get("block", ())),
        given.get("registers per thread"),
        given.get("shared memory"),
        None if percent is None else float(percent) / 100,
    )
