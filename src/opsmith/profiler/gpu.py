"""Profiles a call on the GPU: its kernels, their time and resources, and whether the host or the GPU waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from opsmith.benchmark.ceilings import ceilings
from opsmith.benchmark.statistics import Interval, median_interval
from opsmith.profiler.resources import find_cuobjdump, of_kernel, resources_of
from opsmith.profiler.result import Gpu, Kernel
from opsmith.profiler.trace import activities, busy_of, gap_of, kernels_of, trace_calls

__all__ = ["profile_gpu"]

# Calls under the profiler, and samples of consecutive calls with the target time of one.
_TRACED = 30
_SAMPLES = 15
_SAMPLE_S = 0.01


def profile_gpu(
    call: Callable[[int], Any], host: Interval, bytes_moved: int, library: Path | None, trace: Path | None
) -> Gpu | None:
    """Return what the GPU does in a call that is given its number; None if nothing runs on it.

    `host` is what launching a call takes, `bytes_moved` what the definition reads and writes, and `library` has the
    kernels, or may be None.
    """
    found = activities(trace_calls(call, _TRACED, "cuda", trace))
    if not found:
        return None
    busy = busy_of(found, _TRACED)
    kernels, notes = _with_resources(kernels_of(found, _TRACED), library)
    rate = bytes_moved / busy.middle
    return Gpu(
        kernels,
        busy,
        _wall(call, max(busy.middle, host.middle)),
        host,
        gap_of(found, _TRACED),
        bytes_moved,
        rate,
        rate / ceilings("cuda").copy_bytes_s,
        notes=notes,
    )


def _with_resources(kernels: Sequence[Kernel], library: Path | None) -> tuple[tuple[Kernel, ...], tuple[str, ...]]:
    """Return kernels with what the binary says of them, and notes on what it could not."""
    if library is None:
        return tuple(kernels), ()
    tool = find_cuobjdump()
    if tool is None:
        return tuple(kernels), ("spills are unknown: cuobjdump, part of the CUDA toolkit, is not installed",)
    known = resources_of(library, tool)
    known_of = [of_kernel(known, kernel.name) for kernel in kernels]
    pairs = zip(kernels, known_of, strict=True)
    completed = tuple(k if found is None else replace(k, local_bytes=found.local_bytes) for k, found in pairs)
    return completed, ()


def _wall(call: Callable[[int], Any], about_s: float) -> Interval:
    """Return the time of a call where many are made in a row, to the end of the last."""
    count = max(3, min(500, round(_SAMPLE_S / about_s)))
    samples = []
    for sample in range(_SAMPLES):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for index in range(count):
            call(sample * count + index)
        torch.cuda.synchronize()
        samples.append((time.perf_counter() - started) / count)
    return median_interval(samples)
