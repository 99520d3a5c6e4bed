"""Puts inputs right before a guard page: a kernel that reads one element too many crashes at once."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

__all__ = ["before_guard_page"]

_PROT_NONE = 0


def before_guard_page(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments on the CPU whose contiguous tensors end where an unreadable page begins.

    The pages are never given back: only a child process that ends soon should do this.
    """
    return {name: _fenced(value) if isinstance(value, Tensor) else value for name, value in values.items()}


def _fenced(tensor: Tensor) -> Tensor:
    size = tensor.numel() * tensor.element_size()
    if size == 0 or not tensor.is_contiguous():
        return tensor
    pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    area = mmap.mmap(-1, pages + mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    library = ctypes.CDLL(None, use_errno=True)
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if library.mprotect(start + pages, mmap.PAGESIZE, _PROT_NONE) != 0:
        return tensor
    flat = torch.frombuffer(area, dtype=tensor.dtype, count=tensor.numel(), offset=pages - size)
    return flat.view(tensor.shape).copy_(tensor)
