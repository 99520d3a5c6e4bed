"""Measures the time of a check: the processor's time on the CPU, the clock's where a GPU works or there is a limit.

A check beside other programs tries as much as one that has the machine to itself, so on the CPU the time of the thread
that does the work counts. Waiting for a GPU takes no such time, and autograd runs a backward on a thread of the GPU's
own, so only the clock tells what a check costs there.
"""

from __future__ import annotations

import contextlib
import time

import torch

__all__ = ["now_s", "wake"]


def now_s(device: str, *, by_clock: bool = False) -> float:
    """Return seconds since some moment, to take the difference of two in one thread."""
    return time.thread_time() if device == "cpu" and not by_clock else time.perf_counter()


def wake(device: str) -> None:
    """Initialize this process's use of a GPU: that takes a second or more, which counts for no property."""
    # An error here is raised again in the first property, which can report it.
    with contextlib.suppress(RuntimeError):
        if device != "cpu":
            torch.ones((), device=device).item()
