"""Brings a GPU into the state in which calls are timed: awake, and without their inputs in its second-level cache.

After some idle tenths of a second a GPU takes about a millisecond until it is as fast as under load, and after an idle
millisecond some tens of microseconds.
"""

from __future__ import annotations

import torch
from torch import Tensor

from opsmith.benchmark.machine import cache_bytes
from opsmith.benchmark.persisting_l2 import reset_persisting_l2

__all__ = ["GpuCache"]

# Writes of more than the cache: about ten milliseconds. A few microseconds take so many bytes.
_WRITES, _FEW_BYTES = 200, 4 << 20
# Bound before a candidate is imported.
_zero = Tensor.zero_


class GpuCache:
    """The second-level cache of the current GPU, and memory that is larger."""

    def __init__(self) -> None:
        self._more = torch.empty(3 * cache_bytes("cuda") + (1 << 20), dtype=torch.int8, device="cuda")
        self._few = self._more[:_FEW_BYTES]

    @property
    def nbytes(self) -> int:
        """What this takes of the GPU's memory."""
        return self._more.numel()

    def empty(self) -> None:
        """Have the current stream fill the cache with other memory, and let nothing persist in it."""
        reset_persisting_l2()
        for _ in range(_WRITES):
            _zero(self._more)

    def touch(self) -> None:
        """Have the current stream write a part of that other memory."""
        _zero(self._few)
