"""What CUPTI has seen, told apart by marks; on a GPU, that it is a part of what events say."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch

from opsmith.benchmark.clock import GpuClock, Turns
from opsmith.benchmark.kernels import KernelTime, kernel_times, read_events

GPU, CPU = torch._C._autograd.DeviceType.CUDA, torch._C._autograd.DeviceType.CPU


@dataclass
class Range:
    start: float
    end: float

    def elapsed_us(self) -> float:
        return self.end - self.start


def event(
    name: str, start: float, took: float, device: object = GPU, is_user_annotation: bool = False
) -> SimpleNamespace:
    return SimpleNamespace(
        name=name, device_type=device, time_range=Range(start, start + took), is_user_annotation=is_user_annotation
    )


def test_events_belong_to_the_mark_before_them():
    events = [
        event("second", 30, 40),
        event("at::cuda::spin_kernel(long)", 0, 1),
        event("first", 2, 10),
        event("Memset (Device)", 13, 2),
        event("at::cuda::spin_kernel(long)", 20, 1),
        event("cudaLaunchKernel", 3, 500, CPU),
        event("a name of the program's", 2, 60, is_user_annotation=True),
    ]
    assert read_events(events, 2) == [
        KernelTime(pytest.approx(6e-6), 1),
        KernelTime(pytest.approx(20e-6), 0),
    ]


def test_what_lies_before_the_first_mark_belongs_to_nobody():
    assert read_events([event("stray", 0, 10)], 5) == []


@pytest.mark.gpu
def test_kernels_take_less_than_what_events_say():
    x = torch.randn(1 << 24, device="cuda")
    calls = {"one": x.sin, "two": lambda: x.sin().cos()}

    def fails() -> None:
        raise RuntimeError("it fails")

    found = kernel_times({**calls, "fails": fails})
    assert {name: taken.count for name, taken in found.items()} == {"one": 1, "two": 2}
    clock, turns = GpuClock(), Turns([calls["one"]])
    for _ in range(3):
        between = clock.sample(turns, 10).device_s
    assert 0.5 * between < found["one"].seconds < 1.1 * between
