"""Puts inputs between margins of chosen numbers, which show a read or a write outside an input."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opsmith.checker.memory.guard import MARGIN_BYTES

__all__ = ["AROUND", "PaddedTensor", "pad_tensors"]

# The numbers around: for floating types NaN and numbers that show in every sum and every maximum. For integers small
# ones, so that a kernel that takes one for an index does not crash before its result is compared.
AROUND: dict[str, tuple[float, int]] = {"nan": (math.nan, 1), "high": (1.0, 123), "low": (-1.0, 0)}


@dataclass(frozen=True)
class PaddedTensor:
    """One input: `tensor` in the middle of `arena`, with a margin on either side of its storage."""

    name: str
    tensor: Tensor
    arena: Tensor  # bytes
    before: Tensor  # the arena's bytes before any call

    def stray_write(self) -> str:
        """Say which byte of the margins was written, or return ""."""
        changed = (self.arena != self.before).nonzero()[:, 0]
        size = len(self.arena) - 2 * MARGIN_BYTES
        behind, in_front = changed[changed >= MARGIN_BYTES + size], changed[changed < MARGIN_BYTES]
        if len(behind) > 0:
            return f"it writes to byte {int(behind[0]) - MARGIN_BYTES - size + 1} past the end of {self.name}"
        if len(in_front) > 0:
            return f"it writes to byte {MARGIN_BYTES - int(in_front[-1])} before the start of {self.name}"
        return ""

    def changed(self, *, elements: bool) -> bool:
        """Whether the input's elements (or, where not `elements`, other bytes of its storage) are not what they were."""
        own = self._own_bytes()
        inner = slice(MARGIN_BYTES, len(self.arena) - MARGIN_BYTES)
        differs = self.arena[inner] != self.before[inner]
        return bool((differs & (own if elements else ~own)).any())

    def _own_bytes(self) -> Tensor:
        """Return which bytes of the storage belong to elements of the tensor."""
        tensor = self.tensor
        size = (len(self.arena) - 2 * MARGIN_BYTES) // tensor.element_size()
        mask = torch.zeros(size, dtype=torch.bool, device=tensor.device)
        if tensor.numel() > 0:
            start = (tensor.data_ptr() - self.arena.data_ptr() - MARGIN_BYTES) // tensor.element_size()
            once = _without_repeats(mask.as_strided(tensor.shape, tensor.stride(), start))
            once.fill_(True)
        return mask.repeat_interleave(tensor.element_size())


def pad_tensors(values: Mapping[str, Any], around: str) -> tuple[dict[str, Any], list[PaddedTensor]]:
    """Return arguments with every tensor between margins, and those tensors; `around` is a name of AROUND.

    Values, strides and the alignment of each tensor's first element stay; what of its storage belongs to no element is
    filled as the margins are.
    """
    padded: list[PaddedTensor] = []

    def put(name: str, value: Any) -> Any:
        if isinstance(value, Tensor):
            padded.append(_padded(name, value, around))
            return padded[-1].tensor
        if isinstance(value, list):
            return [put(f"{name}[{index}]", item) for index, item in enumerate(value)]
        return value

    return {name: put(name, value) for name, value in values.items()}, padded


def _padded(name: str, tensor: Tensor, around: str) -> PaddedTensor:
    size = tensor.untyped_storage().nbytes()
    arena = torch.empty(size + 2 * MARGIN_BYTES, dtype=torch.uint8, device=tensor.device)
    _fill(arena, tensor.dtype, around)
    inner, start = _inner(arena, size)
    inner_tensor = inner.view(tensor.dtype).as_strided(
        tensor.shape, tensor.stride(), start // tensor.element_size() + tensor.storage_offset()
    )
    if tensor.numel() > 0:
        _without_repeats(inner_tensor).copy_(_without_repeats(tensor.detach()))
    return PaddedTensor(name, inner_tensor, arena, arena.clone())


def _fill(arena: Tensor, dtype: torch.dtype, around: str) -> None:
    number, integer = AROUND[around]
    if dtype is torch.bool:
        arena.fill_(integer % 2)
    elif dtype.is_floating_point or dtype.is_complex:
        largest = torch.finfo(dtype).max
        # Not the largest itself: a kernel that rounds it again would get inf, which hides more than it shows.
        arena.view(dtype).fill_(number * min(largest / 4, 1e30))
    else:
        arena.view(dtype).fill_(integer)


def _inner(arena: Tensor, size: int) -> tuple[Tensor, int]:
    """Return the bytes between the margins as a tensor, and where they begin in its storage.

    On the CPU they are a storage of their own, because that is what a kernel gets otherwise.
    """
    if arena.device.type != "cpu" or size == 0:
        return (arena, MARGIN_BYTES) if size > 0 else (arena[:0], 0)
    memory = (ctypes.c_uint8 * len(arena)).from_address(arena.data_ptr())
    return torch.frombuffer(memory, dtype=torch.uint8, offset=MARGIN_BYTES, count=size), 0


def _without_repeats(tensor: Tensor) -> Tensor:
    """Return the part of an expanded tensor that holds each element once."""
    for dim in range(tensor.dim()):
        if tensor.stride(dim) == 0 and tensor.shape[dim] > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor
