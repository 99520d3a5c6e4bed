"""Lays the bytes of inputs out, all at once or a piece at a time, and says where others are in their place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Image"]


@dataclass(frozen=True)
class Image:
    """Inputs as they are laid out in `size` bytes: what to copy where (see `describe`), and the byte around that."""

    spans: Sequence[tuple[int, Tensor]]
    size: int
    margin: int

    def write(self, into: Tensor, begin: int = 0) -> None:
        """Fill a tensor of uint8 with what lies from a byte on."""
        into.fill_(self.margin)
        for low, high, content in self._spans_in(begin, into.numel()):
            into[low:high].copy_(content)

    def changed_part(self, different: Tensor, begin: int = 0) -> str:
        """Return what is not as it was, from a flag for each byte from one on: "", "inputs" or "margins"."""
        if not bool(different.any()):
            return ""
        spans = self._spans_in(begin, different.numel())
        return "inputs" if any(bool(different[low:high].any()) for low, high, _ in spans) else "margins"

    def _spans_in(self, begin: int, count: int) -> Iterator[tuple[int, int, Tensor]]:
        """Yield the tensors that lie in some bytes: from where to where, counted from the first of these, and what."""
        for at, flat in self.spans:
            content = flat.contiguous().view(torch.uint8)
            low, high = max(at - begin, 0), min(at - begin + content.numel(), count)
            if low < high:
                yield low, high, content[low + begin - at : high + begin - at]
