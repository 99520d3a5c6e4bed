"""How long has a check worked? By the processor's time on the CPU, and by the clock where it works with a GPU.

Who has to wait for other programs shall try as much as who is alone, so the CPU's share is counted in the time of the
thread that does the work. Waiting for a GPU takes no such time, nor does a backward, which autograd runs on a thread of
the GPU's own: there only the clock tells what a check costs.
"""

from __future__ import annotations

import contextlib
import time

import torch

__all__ = ["now_s", "wake"]


def now_s(device: str) -> float:
    """Return seconds since some moment, to take the difference of two in one thread."""
    return time.thread_time() if device == "cpu" else time.perf_counter()


def wake(device: str) -> None:
    """Have a process begin to use a GPU, which takes a second or more and belongs to nobody's time."""
    # Where that goes wrong it does so again in the first property, which can tell of it.
    with contextlib.suppress(RuntimeError):
        if device != "cpu":
            torch.ones((), device=device).item()
