"""Measures the memory that a call needs beside its inputs: by PyTorch's allocator on a GPU, by Linux on the CPU."""

from __future__ import annotations

from pathlib import Path

import torch

from opsmith.benchmark.clock import Call

__all__ = ["peak_bytes"]

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
# Linux counts pages, and allocators keep what they have: below this a figure says nothing.
_LEAST_SEEN = 4 << 20


def peak_bytes(call: Call, device: str) -> int | None:
    """Return how far memory grows during one call, results included, or None if that cannot be seen.

    What allocates nothing has its memory from before, as a CUDA graph has: how much that is cannot be seen in a call.
    """
    call()
    if device == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return max(0, torch.cuda.max_memory_allocated() - before) or None
    try:
        _CLEAR.write_text("5", encoding="ascii")  # from here on the peak is counted anew
        before = _field("VmRSS")
        call()
        grown = _field("VmHWM") - before
    except (OSError, KeyError, ValueError):
        return None
    return grown if grown >= _LEAST_SEEN else None


def _field(name: str) -> int:
    for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(name)
