"""Sets the number of threads that PyTorch works on for a while: on a busy machine threads wait for each other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

__all__ = ["on_threads"]


@contextlib.contextmanager
def on_threads(count: int) -> Iterator[None]:
    """Let PyTorch use that many threads on the CPU."""
    before = torch.get_num_threads()
    if count != before:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        if count != before:
            torch.set_num_threads(before)
