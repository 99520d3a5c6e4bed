"""Draws numbers from a seed without changing what the process draws otherwise."""

from __future__ import annotations

import random
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
    try:
        import numpy as np
    except ImportError:
        yield
        return
    state = np.random.get_state()
    np.random.seed(seed % 2**32)  # tasks draw from the global generator
    try:
        yield
    finally:
        np.random.set_state(state)
