"""Reads results where they lie in the memory of a candidate's process, which stands still."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence

import torch
from torch import Tensor

from opsmith.judging.memory import span_along

__all__ = ["OtherMemory", "SpreadError"]

# What lies between the elements of a result that is not dense is read as well, up to so many times their bytes, or so many
# bytes. Where that is not enough, they are read in pieces, up to so many.
_MOST_SPREAD, _SPREAD_BYTES = 16, 256 << 20
_MOST_PIECES = 1 << 16


class SpreadError(Exception):
    """The elements of a result lie so far apart that they are not read: it may be right or wrong."""


class OtherMemory:
    """The memory of another process, for reading; raises OSError where this machine does not allow that.

    It is opened before there is a candidate in it, and what that does does not close it.
    """

    def __init__(self, pid: int) -> None:
        self._descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Read no more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def tensor(self, address: int, strides: Sequence[int] | None, like: Tensor) -> Tensor:
        """Return what lies at an address as a tensor of the shape and type of another one; it is dense without strides.

        Raises ValueError for strides that it cannot have, OSError where there is no memory, and SpreadError.
        """
        if not like.numel():
            return torch.empty(like.shape, dtype=like.dtype)
        if strides is None:
            return self._elements(address, like.numel(), like.dtype).reshape(like.shape)
        if len(strides) != like.dim() or any(stride < 0 for stride in strides):
            raise ValueError("strides that a tensor of its shape does not have")
        # The dimensions from the one whose elements lie farthest apart to the one where they are nearest.
        dims = sorted(range(like.dim()), key=lambda dim: -strides[dim])
        sizes, steps = [like.shape[dim] for dim in dims], [strides[dim] for dim in dims]
        outer = _outer_of(sizes, steps, like.dtype.itemsize)
        found = torch.empty(like.shape, dtype=like.dtype)
        by_pieces, span = found.permute(dims), span_along(sizes[outer:], steps[outer:])
        for index in itertools.product(*map(range, sizes[:outer])):
            at = sum(number * step for number, step in zip(index, steps, strict=False))
            elements = self._elements(address + at * like.dtype.itemsize, span, like.dtype)
            by_pieces[index] = elements.as_strided(sizes[outer:], steps[outer:])
        return found

    def _elements(self, address: int, count: int, dtype: torch.dtype) -> Tensor:
        content = bytearray(count * dtype.itemsize)
        rest = memoryview(content)
        try:
            while rest:
                read = os.preadv(self._descriptor, [rest], address)
                if read <= 0:
                    raise OSError(0, "memory that is not there")
                rest, address = rest[read:], address + read
        except OverflowError as error:
            raise ValueError("an address that is not one") from error
        return torch.frombuffer(content, dtype=dtype)


def _outer_of(sizes: Sequence[int], steps: Sequence[int], element_bytes: int) -> int:
    """Return for how many outer dimensions each index is a piece, so that little is read between elements.

    Raises SpreadError where that makes too many.
    """
    most = max(_SPREAD_BYTES // element_bytes, _MOST_SPREAD * math.prod(sizes))
    for outer in range(len(sizes) + 1):
        pieces = math.prod(sizes[:outer])
        if pieces > _MOST_PIECES:
            break
        if pieces * span_along(sizes[outer:], steps[outer:]) <= most:
            return outer
    raise SpreadError("its elements lie too far apart to be read")
