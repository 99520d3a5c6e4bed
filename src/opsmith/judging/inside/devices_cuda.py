"""Serves a candidate's process on an NVIDIA GPU: copies of inputs at fixed places, waits, and the state of its cache.

The functions of CUDA's runtime are taken from the library itself before a candidate is imported.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from opsmith.benchmark.persisting_l2 import cuda_runtime, persisting_l2_bytes
from opsmith.judging.gpu_cache import GpuCache
from opsmith.judging.gpu_memory import COPIES, make_free
from opsmith.judging.inside.mirror import Mirror
from opsmith.judging.memory import Area

__all__ = ["Cuda"]

# About ten milliseconds.
_LATE_CYCLES = 20_000_000
# How long the GPU is kept awake for an order.
_READY_S = 0.1
# Bound before a candidate is imported.
_now = time.perf_counter


class Cuda:
    """The current GPU."""

    name = "cuda"

    def __init__(self, most_bytes: int) -> None:
        torch.cuda.init()
        torch.cuda.synchronize()
        runtime = cuda_runtime()
        self._wait = torch.cuda.synchronize if runtime is None else runtime.cudaDeviceSynchronize
        self.held = Mirror(self.name)
        self._late: Tensor | None = None
        self._cache = GpuCache()
        self._most_bytes, self._total_bytes = most_bytes, torch.cuda.mem_get_info()[1]
        self._limit_allocator, self._limited_for = torch.cuda.set_per_process_memory_fraction, -1
        self.make_room(0)

    def make_room(self, inputs_bytes: int) -> None:
        """Let PyTorch's allocator have what the candidate may take, and inputs of that size as often as they lie here."""
        if inputs_bytes > self._limited_for:
            self._limited_for = inputs_bytes
            allowed = self._most_bytes + self._cache.nbytes + COPIES * inputs_bytes
            self._limit_allocator(min(1.0, allowed / self._total_bytes))

    def mirror(self, area: Area, size: int, keep: bool, leave: bool) -> Mirror:
        """Copy the first bytes of the area to the device: it may have been made for far larger inputs."""
        self.place(size, keep, leave)
        self.held.put(area.bytes[:size])
        return self.held

    def place(self, size: int, keep: bool, leave: bool) -> None:
        """Have memory for inputs of a size, which may be copied there from anywhere."""
        self.make_room(size)
        if size != self.held.size:
            make_free(size, self.name)
        self.held.place(size, keep=keep, leave=leave)

    def write_back(self, area: Area) -> None:
        """Copy what is on the device now into the area, where it came from."""
        self.held.take(area.bytes[: self.held.size])

    def touch(self, area: Area, nbytes: int | None = None) -> int:
        """Do nothing: inputs have just been copied to the device, and its cache is emptied before calls."""
        return 0

    def before_calls(self) -> None:
        """Wake the GPU and empty its second-level cache: candidates share one with their inputs."""
        self._cache.empty()
        self._wait()

    def stay_ready(self, is_over: Callable[[], bool]) -> None:
        """Have the GPU write a little again and again: it would be asleep again when the order comes."""
        until_s = _now() + _READY_S
        while not is_over() and _now() < until_s:
            self._cache.touch()
            self._wait()

    def arrive_late(self) -> None:
        """Take the inputs away, and have the current stream bring them back when it has slept."""
        content = self.held.content
        if content is None:
            return
        # Kept until the copy is made: the allocator would give it to the candidate, whose other streams could be early.
        self._late = content.clone()
        content.fill_(0xFF)
        self._wait()
        torch.cuda._sleep(_LATE_CYCLES)
        content.copy_(self._late)

    def wait(self) -> None:
        """Wait for everything that is queued, on every stream; raises what CUDA reports."""
        status = self._wait()
        self._late = None
        if status:
            torch.cuda.synchronize()  # raises it in words
            raise RuntimeError(f"CUDA error {status}")

    def set_aside_bytes(self) -> int:
        """Return how much of the cache calls have set aside since `before_calls`."""
        return persisting_l2_bytes()
