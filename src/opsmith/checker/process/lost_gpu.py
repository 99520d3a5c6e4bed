"""Ends a process whose GPU has stopped: after an illegal access every later call in it fails, whatever it does."""

from __future__ import annotations

import os
import sys

import torch

from opsmith.checker.process.child import GPU_LOST

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
        print((str(error).splitlines() or ["CUDA error"])[0])
        sys.stdout.flush()
        os._exit(GPU_LOST)
