"""What do the kernels of a call take by themselves? As the driver's profiling interface (CUPTI) has it, through PyTorch's.

Between events there is what lies between kernels too, and by the clock all that the host does; this is the kernels alone.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch.profiler import ProfilerActivity, profile

from opsmith.bench.clock import Call

__all__ = ["KernelTime", "kernel_time"]

_CALLS = 5


@dataclass(frozen=True)
class KernelTime:
    """Seconds of all kernels, copies and fills of one call, and how many of them there are."""

    seconds: float
    count: int


def kernel_time(call: Call, calls: int = _CALLS) -> KernelTime | None:
    """Return the time of a call's kernels, the mean of a few calls in a row; None where CUPTI is not there or not allowed.

    The inputs are what the cache holds of them: nothing is flushed between the calls.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call()
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            for _ in range(calls):
                call()
            torch.cuda.synchronize()
        events = profiler.events() or []
    on_gpu = [
        event
        for event in events
        # What a program calls a part of itself is shown on the GPU as well, over the kernels in it.
        if event.device_type == torch._C._autograd.DeviceType.CUDA and not getattr(event, "is_user_annotation", False)
    ]
    if not on_gpu:
        return None
    microseconds = sum(event.time_range.elapsed_us() for event in on_gpu)
    return KernelTime(microseconds * 1e-6 / calls, round(len(on_gpu) / calls))
