"""Decides how many compilers run at once."""

from __future__ import annotations

from itertools import accumulate

from opsmith import _env
from opsmith.build.plan import Plan
from opsmith.spec.extension import Api, Language, Source
from opsmith.toolchain.resources import available_memory_bytes, cpu_count

__all__ = ["TORCH_PEAK_BYTES", "choose_jobs", "torch_jobs", "usable_jobs"]

_MIB = 1 << 20

# What one compiler takes at its peak. With gcc 12, nvcc 13 and torch 2.13 a small source with torch/extension.h takes
# 1.5 GB, a .cu with it 3.2 GB; these leave some room for larger ones.
_PEAK_BYTES: dict[tuple[Language, Api], int] = {
    ("cxx", "none"): 300 * _MIB,
    ("cxx", "stable"): 400 * _MIB,
    ("cxx", "full"): 2300 * _MIB,
    ("gpu", "none"): 600 * _MIB,
    ("gpu", "stable"): 1200 * _MIB,
    ("gpu", "full"): 3500 * _MIB,
    ("sycl", "full"): 3500 * _MIB,
}

_MOST_BYTES = max(_PEAK_BYTES.values())

# Of a compiler that reads torch's whole C++ API.
TORCH_PEAK_BYTES = _PEAK_BYTES["cxx", "full"]


def usable_jobs() -> int:
    """Return how many compilers may run at once: OPSMITH_JOBS, MAX_JOBS, or one for each core."""
    return _wanted_jobs() or cpu_count()


def choose_jobs(plan: Plan, jobs: int | None = None) -> int:
    """Return how many steps of a plan run at once: as many as are wanted, else as there are cores and memory for.

    By default no more compilers are started than fit into free memory: one that the kernel kills fails the build, and
    often more than the build.
    """
    if (wanted := jobs or _wanted_jobs()) is not None:
        return wanted
    free = available_memory_bytes()
    cores = cpu_count()
    return cores if free is None else max(1, min(cores, _fit(plan.extension.sources, free)))


def torch_jobs() -> int:
    """Return how many sources over torch's C++ API compile at once: as wanted, else by cores and free memory."""
    free = available_memory_bytes()
    fitting = cpu_count() if free is None else min(cpu_count(), free // TORCH_PEAK_BYTES)
    return _wanted_jobs() or max(1, fitting)


def _fit(sources: tuple[Source, ...], free: int) -> int:
    """Return how many of the largest compilations fit into memory side by side; all, where all do."""
    peaks = sorted((_PEAK_BYTES.get((source.language, source.api), _MOST_BYTES) for source in sources), reverse=True)
    fitting = sum(1 for total in accumulate(peaks) if total <= free)
    return fitting if fitting < len(peaks) else cpu_count()


def _wanted_jobs() -> int | None:
    for name in ("OPSMITH_JOBS", "MAX_JOBS"):
        value = _env.read(name)
        if value is not None and value.isdigit() and int(value) > 0:
            return int(value)
    return None
