"""Carries inputs and results through a GPU's memory that a candidate's process has mapped too, a piece at a time.

A candidate may write there at any time, by a kernel that goes on while its process stands still. So it is a passage, and
no place where anything is used: inputs are copied from there to memory of the candidate's, results to memory of the
judge's, and of what is compared every byte has been read once. What is expected is never there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from opsmith.checker.memory.available import available_memory_bytes
from opsmith.judging.gpu_area import Passage
from opsmith.judging.gpu_memory import make_free
from opsmith.judging.image import Image

__all__ = ["StagedResults", "Staging"]

# Asks a candidate's process for something, and raises CellError where it cannot do that.
_Ask = Callable[..., dict[str, Any]]


class Staging:
    """The judge's end of such memory; `inside.staging` is the other one."""

    def __init__(self, passage: Passage, ask: _Ask) -> None:
        self._passage, self._ask = passage, ask
        self._placed_bytes = 0

    def put(self, image: Image, *, keep: bool, leave: bool) -> None:
        """Have inputs in the candidate's process; `keep` and `leave` say where (see `inside.mirror`)."""
        if image.size != self._placed_bytes:
            make_free(image.size, self._device)
            self._placed_bytes = image.size
        self._ask("place", size=image.size, keep=keep, leave=leave)
        for at, piece in self._pieces(image.size):
            image.write(piece, at)
            self._wait()
            self._ask("put", at=at, count=piece.numel())

    def changed(self, image: Image) -> str:
        """Return what the candidate's process has changed of its inputs since then, as `Image.changed_part` does."""
        told = ""
        for at, piece in self._pieces(image.size):
            self._ask("back", at=at, count=piece.numel())
            expected = torch.empty_like(piece)
            image.write(expected, at)
            found = image.changed_part(piece != expected, at)
            if found == "inputs":
                return found
            told = told or found
        return told

    def results(self, size: int) -> StagedResults:
        """Return so many bytes of the results that the candidate's process has described last."""
        return StagedResults(size, self)

    def room_bytes(self) -> int:
        """Return how many bytes of results there is memory for."""
        kept = torch.cuda.memory_reserved() - torch.cuda.memory_allocated() if self._passage.bytes.is_cuda else 0
        return available_memory_bytes(self._device) + kept

    def copied(self, at: int, count: int, device: str) -> Tensor:
        """Return a copy of bytes of the results."""
        found = torch.empty(count, dtype=torch.uint8, device=device)
        for done, piece in self._pieces(count):
            self._ask("carry", at=at + done, count=piece.numel())
            found[done : done + piece.numel()].copy_(piece)
            self._wait()  # before the next piece takes its place, and before it counts as read
        return found

    def close(self) -> None:
        """Give the memory back."""
        self._passage.close()

    @property
    def _device(self) -> str:
        return self._passage.bytes.device.type

    def _pieces(self, size: int) -> Iterator[tuple[int, Tensor]]:
        """Yield the memory as often as it takes, each time with where that piece begins."""
        for at in range(0, size, self._passage.size):
            yield at, self._passage.bytes[: min(self._passage.size, size - at)]

    def _wait(self) -> None:
        if self._passage.bytes.is_cuda:
            torch.cuda.synchronize()


class StagedResults:
    """Results of a candidate's process as memory that is read by copies (see `memory.Shared`)."""

    def __init__(self, size: int, staging: Staging) -> None:
        self.size, self._staging = size, staging

    def copied(self, at: int, count: int, device: str) -> Tensor:
        """Return a copy of some bytes on a device."""
        return self._staging.copied(at, count, device)
