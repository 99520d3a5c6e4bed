"""Refuses what waits for a GPU."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["refusing_to_wait"]


@contextmanager
def refusing_to_wait() -> Iterator[None]:
    """Raise RuntimeError at any call within that waits for the GPU."""
    torch.cuda.synchronize()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns that it does not know of all
            torch.cuda.set_sync_debug_mode("error")
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
