"""Holds the inputs of calls in memory of a candidate's own process on a GPU, at the same place or at another one."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Mirror"]

# Bound before a candidate is imported.
_empty, _copy, _uint8 = torch.empty, Tensor.copy_, torch.uint8


class Mirror:
    """A copy of the bytes that the judge has laid out: `content`, where there is one."""

    def __init__(self, device: str) -> None:
        self._device = device
        self.content: Tensor | None = None
        self._left: Tensor | None = None

    @property
    def size(self) -> int:
        """How many bytes these are."""
        return 0 if self.content is None else self.content.numel()

    def place(self, size: int, *, keep: bool, leave: bool) -> None:
        """Have memory for so many bytes: with `keep` at the place of those before, otherwise at another one.

        With `leave` what is put there comes to that place too, for those who have kept it and do not look at what they are
        given.
        """
        self._left = None
        if self.content is None or not keep or self.size != size:
            # The last one goes after the new one is there, which then lies elsewhere.
            before, self.content = self.content, _empty(size, dtype=_uint8, device=self._device)
            self._left = before if leave else None

    def put(self, piece: Tensor, at: int = 0) -> None:
        """Copy bytes to where they belong, from one of them on."""
        for target in (self._left, self.content):
            count = min(piece.numel(), target.numel() - at) if target is not None else 0
            if target is not None and count > 0:
                _copy(target[at : at + count], piece[:count])

    def take(self, into: Tensor, at: int = 0) -> None:
        """Copy bytes as they are now, as many as there is room for."""
        assert self.content is not None
        _copy(into, self.content[at : at + into.numel()])

    def part(self, at: int, count: int, dtype: torch.dtype) -> Tensor:
        """Return elements from a byte on as a tensor of one dimension.

        It has a version of its own: new contents do not show in it, as those that a kernel writes do not.
        """
        assert self.content is not None
        return self.content.data[at : at + count * dtype.itemsize].view(dtype)
