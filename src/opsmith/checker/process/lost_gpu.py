"""Ends a process whose GPU has stopped: after an illegal access every later call in it fails, whatever it does."""

from __future__ import annotations

import os
import sys

import torch

from opsmith.checker.process.child import GPU_FULL, GPU_LOST
from opsmith.subject.blame import is_out_of_memory

__all__ = ["leave_where_lost", "settle"]


def settle(device: str) -> None:
    """Wait for a GPU, and raise what the calls before have left behind: a launch that failed, or an illegal access."""
    if device == "cpu":
        return
    # PyTorch asks for the last error after each launch of its own, so a launch that nobody has asked after shows here.
    torch.empty(1, device=device).fill_(1.0)
    torch.cuda.synchronize()


def leave_where_lost(device: str) -> None:
    """End this process, a child of a check, if the GPU does not work in it any more; what happened is printed."""
    if device == "cpu" or not torch.cuda.is_initialized():
        return
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        is_full = is_out_of_memory(error)
        print((str(error).splitlines() or ["CUDA error"])[0] + (_memory_left() if is_full else ""))
        sys.stdout.flush()
        os._exit(GPU_FULL if is_full else GPU_LOST)


def _memory_left() -> str:
    try:
        free, total = torch.cuda.mem_get_info()
    except RuntimeError:
        return ""
    held = torch.cuda.memory_reserved()
    return f"; {free / 1e9:.1f} of {total / 1e9:.1f} GB are free, this process holds {held / 1e9:.1f} GB"
