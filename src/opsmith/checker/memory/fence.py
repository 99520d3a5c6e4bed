"""Puts inputs right before memory that cannot be read: a kernel that reads one element too many crashes at once.

On the CPU that is a page without rights, on a GPU a part of a reserved range of addresses that has no memory.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from opsmith.checker.memory.fence_gpu import fenced_on_gpu

__all__ = ["before_guard_page"]

_PROT_NONE = 0


def before_guard_page(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments whose contiguous tensors end where unreadable memory begins, on the CPU or on an NVIDIA GPU.

    The memory is never given back: only a child process that ends soon should do this.
    """

    def fenced(value: Any) -> Any:
        if not isinstance(value, Tensor) or value.numel() == 0 or not value.is_contiguous():
            return value
        return fenced_on_gpu(value) if value.is_cuda else _fenced(value)

    return {name: fenced(value) for name, value in values.items()}


def _fenced(tensor: Tensor) -> Tensor:
    size = tensor.numel() * tensor.element_size()
    pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    area = mmap.mmap(-1, pages + mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    library = ctypes.CDLL(None, use_errno=True)
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if library.mprotect(start + pages, mmap.PAGESIZE, _PROT_NONE) != 0:
        return tensor
    flat = torch.frombuffer(area, dtype=tensor.dtype, count=tensor.numel(), offset=pages - size)
    return flat.view(tensor.shape).copy_(tensor)
