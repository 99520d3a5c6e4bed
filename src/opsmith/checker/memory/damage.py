"""A write outside of all blocks of memory, and what finds one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Damage", "Guard"]


@dataclass(frozen=True)
class Damage:
    """A written byte outside every allocation.

    `address` and `size_bytes` are the block's that it is next to; `offset_bytes` is counted from the block's beginning,
    so it is negative before the block. `is_free` says that the block itself had been freed.
    """

    address: int
    size_bytes: int
    offset_bytes: int
    is_free: bool = False

    def describe(self, block: str) -> str:
        """Say what happened, with a name for the block of memory."""
        size = f"{block} ({self.size_bytes} bytes)"
        if self.is_free and 0 <= self.offset_bytes < self.size_bytes:
            return f"byte {self.offset_bytes} of {size} is written after being freed"
        if self.offset_bytes < 0:
            return f"it writes to byte {-self.offset_bytes} before the start of {size}"
        return f"it writes to byte {self.offset_bytes - self.size_bytes + 1} past the end of {size}"


class Guard:
    """Memory under watch, between `guarded`'s beginning and its end."""

    def damage(self, results: Iterable[int] = ()) -> Damage | None:
        """Return the first write outside of all blocks, or None; on a GPU behind those of results, by address."""
        raise NotImplementedError
