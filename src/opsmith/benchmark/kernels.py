"""Times the kernels of a call by themselves, with the driver's profiling interface (CUPTI) through PyTorch's.

The time between events includes the gaps between kernels, and the clock's all that the host does; this is the kernels alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch.profiler import ProfilerActivity, profile

from opsmith.benchmark.clock import Call

__all__ = ["KernelTime", "kernel_times", "read_events"]

Key = TypeVar("Key")

_CALLS = 5
# A kernel that nothing else uses lies before the calls of each: PyTorch's waiting loop.
_MARK = "spin_kernel"


@dataclass(frozen=True)
class KernelTime:
    """Seconds of all kernels, copies and fills of one call, and how many of them there are."""

    seconds: float
    count: int


def kernel_times(calls: Mapping[Key, Call], count: int = _CALLS) -> dict[Key, KernelTime]:
    """Return the times of the kernels of some calls, the mean of `count` in a row each; those that fail are left out.

    All are looked at in one session, since starting one takes long. Nothing comes back where CUPTI is not there, not
    allowed, or in use elsewhere. The inputs are what the cache holds of them: it is not emptied between calls.
    """
    failed: set[Key] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            for key, call in calls.items():
                torch.cuda._sleep(1000)
                try:
                    for _ in range(count):
                        call()
                except RuntimeError:
                    failed.add(key)
            torch.cuda.synchronize()
        found = read_events(profiler.events() or [], count)
    if len(found) != len(calls):
        return {}
    return {key: taken for key, taken in zip(calls, found, strict=True) if key not in failed and taken.count}


def read_events(events: Iterable[Any], count: int) -> list[KernelTime]:
    """Return the time of what lies behind each mark, for one of `count` calls."""
    return [KernelTime(total * 1e-6 / count, round(number / count)) for total, number in _between_marks(events)]


def _between_marks(events: Iterable[Any]) -> Iterator[tuple[float, int]]:
    """Yield the microseconds and the number of the GPU's events behind each mark, in the order of time."""
    on_gpu = [
        event
        for event in events
        # What a program calls a part of itself is shown on the GPU as well, over the kernels in it.
        if event.device_type == torch._C._autograd.DeviceType.CUDA and not getattr(event, "is_user_annotation", False)
    ]
    total, number, is_begun = 0.0, 0, False
    for event in sorted(on_gpu, key=lambda event: event.time_range.start):
        if _MARK in event.name:
            if is_begun:
                yield total, number
            total, number, is_begun = 0.0, 0, True
        else:
            total, number = total + event.time_range.elapsed_us(), number + 1
    if is_begun:
        yield total, number
