"""Puts inputs right before or behind memory that cannot be read: a kernel that reads beyond them crashes at once.

On the CPU that is a page without rights, on a GPU a part of a reserved range of addresses that has no memory.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from opsmith.checker.memory.fence_gpu import fenced_on_gpu

__all__ = ["before_guard_page", "behind_guard_page"]

_PROT_NONE = 0
# So far beyond an input a read is noticed.
_FENCE_BYTES = 1 << 20


def before_guard_page(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments whose contiguous tensors end where unreadable memory begins, on the CPU or on an NVIDIA GPU.

    The memory is never given back: only a child process that ends soon should do this.
    """

    return _fenced(values, lambda tensor: fenced_on_gpu(tensor) if tensor.is_cuda else _between_fences(tensor, True))


def behind_guard_page(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments whose contiguous tensors begin where unreadable memory ends, on the CPU; others stay as they are."""
    return _fenced(values, lambda tensor: tensor if tensor.is_cuda else _between_fences(tensor, False))


def _fenced(values: Mapping[str, Any], fence: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    def fenced(value: Any) -> Any:
        if isinstance(value, list):
            return [fenced(item) for item in value]
        if not isinstance(value, Tensor) or value.numel() == 0 or not value.is_contiguous():
            return value
        return fence(value)

    return {name: fenced(value) for name, value in values.items()}


def _between_fences(tensor: Tensor, is_at_end: bool) -> Tensor:
    """Return a copy at the end or at the beginning of pages with memory that nobody may read on either side."""
    size = tensor.numel() * tensor.element_size()
    pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    area = mmap.mmap(-1, pages + 2 * _FENCE_BYTES)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    library = ctypes.CDLL(None, use_errno=True)
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for fence in (start, start + _FENCE_BYTES + pages):
        if library.mprotect(fence, _FENCE_BYTES, _PROT_NONE) != 0:
            return tensor
    offset = _FENCE_BYTES + (pages - size if is_at_end else 0)
    flat = torch.frombuffer(area, dtype=tensor.dtype, count=tensor.numel(), offset=offset)
    return flat.view(tensor.shape).copy_(tensor)
