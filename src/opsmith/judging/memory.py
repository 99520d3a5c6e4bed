"""Shares tensors with a candidate's process through memory that neither side can make smaller.

Tensors cross as bytes and a description in JSON. Between them and around them lie margins, whose content the judge
chooses anew for each call: a candidate that reads there gives other results, one that writes there is seen.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeGuard

import torch
from torch import Tensor

__all__ = [
    "DTYPES",
    "Area",
    "Parts",
    "Shared",
    "describe",
    "offset_of",
    "overlaps_itself",
    "read_tensor",
    "span_along",
    "span_of",
    "sum_of_words",
    "view_of",
]

# Bytes: of a line of a cache, and around each tensor, which show who writes beside it.
_ALIGNMENT, _MARGIN = 64, 256
# Linux's numbers, which fcntl has from Python 3.10 on only in part.
_F_ADD_SEALS, _SEAL_SEAL, _SEAL_SHRINK, _SEAL_GROW = 1033, 1, 2, 4
_MOST_DIMS = 64
DTYPES: Mapping[str, torch.dtype] = {
    str(one).removeprefix("torch."): one for one in vars(torch).values() if isinstance(one, torch.dtype)
}


class Area:
    """A piece of shared memory. `bytes` is all of it as a tensor of uint8, on the CPU."""

    def __init__(self, size: int, descriptor: int | None = None) -> None:
        """Make one of a size, or map another process's."""
        self.size = -(-max(size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        self.is_own = descriptor is None
        if descriptor is None:
            descriptor = os.memfd_create("opsmith-judge", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(descriptor, self.size)
            # Memory that shrinks would end the process that reads it.
            fcntl.fcntl(descriptor, _F_ADD_SEALS, _SEAL_SHRINK | _SEAL_GROW | _SEAL_SEAL)
        self.descriptor = descriptor
        self.memory = mmap.mmap(descriptor, self.size)
        self.bytes = torch.frombuffer(self.memory, dtype=torch.uint8)

    @property
    def file(self) -> tuple[int, int]:
        """The file that it is, by device and number."""
        found = os.fstat(self.descriptor)
        return found.st_dev, found.st_ino

    def part(self, at: int, count: int, dtype: torch.dtype) -> Tensor:
        """Return elements from a byte on as a tensor of one dimension, with a storage of its own."""
        return torch.frombuffer(self.memory, dtype=dtype, count=count, offset=at)

    def copied(self, at: int, count: int, device: str) -> Tensor:
        """Return a copy of some bytes on a device."""
        return self.bytes[at : at + count].to(device, copy=True)

    def close(self) -> None:
        """Give the descriptor back; the memory goes with the last tensor in it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def sum_of_words(content: Tensor) -> int:
    """Return the sum of the words of some bytes, of eight each, modulo 2^64: who knows it has read them."""
    return int(content.view(torch.int64).sum())


def span_of(tensor: Tensor) -> int:
    """Return how many elements lie between a tensor's first and last, both counted."""
    return span_along(tensor.shape, tensor.stride()) if tensor.numel() else 0


def span_along(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Return the same for sizes and strides, of which no size is 0."""
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def overlaps_itself(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements of a tensor share memory, since some of its dimensions have more elements than places for them."""
    if 0 in sizes:
        return False
    count = span = 1
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        count, span = count * size, span + (size - 1) * stride
        if count > span:
            return True
    return False


def offset_of(tensor: Tensor) -> int:
    """Return by how many elements a tensor's first one is off the alignment of what its storage begins with."""
    return int(tensor.storage_offset()) % (_ALIGNMENT // tensor.element_size())


def describe(values: Sequence[Any], begin: int = 0) -> tuple[list[Any], list[tuple[int, Tensor]], int]:
    """Lay arguments out from a byte on: return their descriptions, what to copy where, and where the next may begin.

    What is copied are tensors of one dimension: all that lies between a tensor's first element and its last. Raises
    TypeError for an argument that is not a tensor, a number, a text, None or a list of these.
    """
    copies: list[tuple[int, Tensor]] = []
    at = begin

    def described(value: Any) -> Any:
        nonlocal at
        if isinstance(value, Tensor):
            plain = value.detach().resolve_conj().resolve_neg()
            span = span_of(plain)
            # What is one element off the alignment stays so.
            at = _aligned(at + _MARGIN) + offset_of(plain) * plain.element_size()
            found = {
                "at": at,
                "span": span,
                "shape": list(plain.shape),
                "strides": list(plain.stride()),
                "dtype": str(plain.dtype).removeprefix("torch."),
            }
            if span:
                copies.append((at, torch.as_strided(plain, (span,), (1,), plain.storage_offset())))
            at += span * plain.element_size()
            return found
        if isinstance(value, list | tuple):
            return [described(item) for item in value]
        if value is None or isinstance(value, bool | int | float | str):
            return {"value": value}
        if isinstance(value, torch.dtype):
            return {"dtype_value": str(value).removeprefix("torch.")}
        raise TypeError(f"an argument is a {type(value).__name__}; a candidate gets tensors, numbers, texts and lists")

    descriptions = [described(value) for value in values]
    return descriptions, copies, _aligned(at + _MARGIN)


class Parts(Protocol):
    """Memory of which tensors are parts: an area, or its copy on a device."""

    def part(self, at: int, count: int, dtype: torch.dtype) -> Tensor: ...  # noqa: D102


def view_of(described: Any, area: Parts, device: str) -> Any:
    """Return the argument that a description stands for, its tensors as parts of an area on a device."""
    if isinstance(described, list):
        return [view_of(item, area, device) for item in described]
    if "value" in described:
        return described["value"]
    if "dtype_value" in described:
        return DTYPES[described["dtype_value"]]
    dtype = DTYPES[described["dtype"]]
    shape, strides = described["shape"], described["strides"]
    if described["span"] == 0:
        return torch.empty_strided(shape, strides, dtype=dtype, device=device)
    part = area.part(described["at"], described["span"], dtype)
    return part.as_strided(shape, strides, part.storage_offset())


class Shared(Protocol):
    """So many bytes that a candidate's process has written, and may be writing still: each is read once, into a copy."""

    size: int

    def copied(self, at: int, count: int, device: str) -> Tensor: ...  # noqa: D102


def read_tensor(described: Any, area: Shared, most_bytes: int | None = None, device: str = "cpu") -> Tensor:
    """Return a copy, on a device, of a tensor that another process describes, which lies in an area without gaps.

    Raises ValueError for a description that is not one, of what lies elsewhere, or of more than `most_bytes`.
    """
    if not isinstance(described, dict):
        raise ValueError("a result that is not described")
    dtype, shape, at = DTYPES.get(described.get("dtype", "")), described.get("shape"), described.get("at")
    if dtype is None or not _are_sizes(shape) or type(at) is not int:
        raise ValueError("a result whose description makes no sense")
    count = 1
    for size in shape:
        count *= size
    if not 0 <= at <= area.size - count * dtype.itemsize:
        raise ValueError("a result that lies outside of the memory for it")
    if most_bytes is not None and count * dtype.itemsize > most_bytes:
        raise ValueError("results that overlap")
    # A copy first: what is read twice may have changed between.
    copied = area.copied(at, count * dtype.itemsize, device)
    try:
        return copied.view(dtype).reshape(shape) if count else torch.empty(shape, dtype=dtype, device=device)
    except RuntimeError as error:
        raise ValueError(f"a result that no tensor can be ({error})") from None


def _are_sizes(shape: Any) -> TypeGuard[list[int]]:
    return (
        isinstance(shape, list)
        and len(shape) <= _MOST_DIMS
        and all(type(one) is int and 0 <= one < 1 << 48 for one in shape)
    )


def _aligned(at: int) -> int:
    return -(-at // _ALIGNMENT) * _ALIGNMENT
