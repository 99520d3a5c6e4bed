"""Fills the memory that PyTorch's allocator of a GPU keeps free, from which it serves the next call, with a byte.

What a kernel leaves unwritten then shows, and what it writes behind an output: the allocator rounds sizes up to 512 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from opsmith.checker.memory.damage import Damage, Guard
from opsmith.checker.memory.gpu_bytes import GpuBytes

__all__ = ["GpuGuard"]


@dataclass(frozen=True)
class _Block:
    address: int
    size: int  # bytes
    wanted: int  # how many of them were asked for
    is_free: bool


class GpuGuard(Guard):
    """The free memory of a GPU, filled with a byte when the guard begins."""

    def __init__(self, body: int) -> None:
        torch.cuda.synchronize()
        self._body = body
        self._filled = [block for block in _blocks() if block.is_free]
        for block in self._filled:
            GpuBytes(block.address, block.size).tensor().fill_(body)
        torch.cuda.synchronize()

    def damage(self, results: Iterable[int] = ()) -> Damage | None:
        """Return the first write between the end of a result, given by its address, and the end of its block.

        Memory that was filled and has been given out once can only be a result's, if results are allocated first.
        """
        wanted = set(results)
        for block in _blocks():
            rest = GpuBytes(block.address + block.wanted, block.size - block.wanted)
            if block.address not in wanted or rest.size <= 0 or not self._was_filled(rest):
                continue
            changed = (rest.tensor() != self._body).nonzero()
            if len(changed) > 0:
                return Damage(block.address, block.wanted, block.wanted + int(changed[0]))
        return None

    def _was_filled(self, part: GpuBytes) -> bool:
        ends = ((block.address, block.address + block.size) for block in self._filled)
        return any(begin <= part.address and part.address + part.size <= end for begin, end in ends)


def _blocks() -> list[_Block]:
    """Return the blocks of PyTorch's allocator."""
    found = []
    for segment in torch.cuda.memory_snapshot():
        address = segment["address"]
        for block in segment["blocks"]:
            size = block["size"]
            found.append(_Block(address, size, block.get("requested_size", size), block["state"] == "inactive"))
            address += size
    return found
