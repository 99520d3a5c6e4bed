"""Makes tensors of few elements so far apart that their indices pass 2^31 or 2^32; the memory between is never touched."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from opsmith.checker.memory.available import available_address_bytes
from opsmith.subject.case import Case

__all__ = ["HINT", "NEAR", "Room", "dimensions", "long_dimensions", "room_for", "spread", "spread_tensor"]

NEAR = 64
HINT = (
    "Some index or stride has only 32 bits: use int64_t for both, and for their products. A 32-bit kernel has to "
    "reject what does not fit."
)
# What an index without a sign wraps around at, and, where there is no room for that, one with a sign.
_LIMITS = (1 << 32, 1 << 31)
_SIGNED = 1 << 31


def dimensions(case: Case) -> Iterator[tuple[str, int]]:
    """Yield the first and the last dimension of each tensor along which there are several elements."""
    for name, recipe in case.tensors().items():
        yield from ((name, dim) for dim in long_dimensions(recipe.shape))


def long_dimensions(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the first and the last dimension of a shape along which there are several elements."""
    long = [dim for dim, size in enumerate(shape) if size > 1]
    return tuple(dict.fromkeys((*long[:1], *long[-1:])))


class Room(NamedTuple):
    """How many bytes of addresses a tensor needs and how many there are, its stride, and the elements that lie before it.

    Those are None where it does not fit. Without memory before it, an index that wraps around lies outside and may crash.
    """

    needed: int
    free: int
    stride: int
    before: int | None


def room_for(shape: tuple[int, ...], dtype: str, dim: int, device: str) -> Room:
    """Return the room for a tensor whose last element along a dimension has an index past 2^32, or past 2^31."""
    itemsize: int = getattr(torch, dtype).itemsize
    free = available_address_bytes(device) * 9 // 10
    for limit in _LIMITS:
        stride = -(-limit // (shape[dim] - 1)) + NEAR
        needed = (stride * (shape[dim] - 1) + 2 * math.prod(shape) + NEAR) * itemsize
        if needed + _SIGNED * itemsize <= free:
            return Room(needed, free, stride, _SIGNED)
    return Room(needed, free, stride, NEAR if needed <= free else None)


def spread(case: Case, device: str, name: str, dim: int, stride: int, before: int) -> dict[str, Any]:
    """Return the arguments with one tensor's elements that far apart along a dimension, `before` elements into memory."""
    values = case.build(device)
    base, bracket, index = name.partition("[")
    if not bracket:
        values[base] = spread_tensor(values[base], dim, stride, before)
    else:
        values[base][int(index[:-1])] = spread_tensor(values[base][int(index[:-1])], dim, stride, before)
    return values


def spread_tensor(tensor: Tensor, dim: int, stride: int, before: int) -> Tensor:
    """Return a copy of a tensor with its elements that far apart along a dimension."""
    other = [size if index != dim else 1 for index, size in enumerate(tensor.shape)]
    strides = list(torch.empty(other, device="meta").stride())
    strides[dim] = stride
    last = sum(step * (size - 1) for step, size in zip(strides, tensor.shape, strict=True))
    # A storage, because `torch.empty` may be told to fill what it returns.
    storage = torch.UntypedStorage((before + last + 1) * tensor.dtype.itemsize, device=tensor.device)
    view = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    view.set_(storage, before, tuple(tensor.shape), tuple(strides))
    return view.copy_(tensor)
