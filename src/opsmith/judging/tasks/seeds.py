"""Draws numbers from a seed without changing what the process draws otherwise."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["seeded"]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Set the seeds of PyTorch, NumPy and Python for a block, and put their states back afterwards."""
    state = random.getstate()
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=devices), _numpy(seed):
        torch.manual_seed(seed)
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(state)


@contextmanager
def _numpy(seed: int) -> Iterator[None]:
    numpy = sys.modules.get("numpy")  # a task that draws from it has imported it
    if numpy is None:
        yield
        return
    state = numpy.random.get_state()
    numpy.random.seed(seed % 2**32)
    try:
        yield
    finally:
        numpy.random.set_state(state)
