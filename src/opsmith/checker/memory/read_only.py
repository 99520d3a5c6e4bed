"""Puts inputs into memory that cannot be written to: a kernel that writes to one crashes, even if it puts all back."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Container, Mapping
from typing import Any

import torch
from torch import Tensor

__all__ = ["in_read_only_memory"]

_PROT_READ = 1


def in_read_only_memory(
    values: Mapping[str, Any], but: Container[str] = (), *, is_writable: bool = False
) -> dict[str, Any]:
    """Return arguments on the CPU whose tensors lie in pages that can only be read, in the same layout; not those of `but`.

    With `is_writable` they lie in such pages, for comparison, which can be written to. The pages are never given back:
    only a child process that ends soon should do this.
    """

    def frozen(value: Any) -> Any:
        if isinstance(value, Tensor):
            return _in_own_pages(value, is_writable)
        return [frozen(item) for item in value] if isinstance(value, list) else value

    return {name: value if name in but else frozen(value) for name, value in values.items()}


def _in_own_pages(tensor: Tensor, is_writable: bool) -> Tensor:
    storage = tensor.untyped_storage()
    size = storage.nbytes()
    if size == 0:
        return tensor
    # A page on either side: what is read there is another property's.
    pages = (2 - -size // mmap.PAGESIZE) * mmap.PAGESIZE
    area = mmap.mmap(-1, pages)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    ctypes.memmove(start + mmap.PAGESIZE, storage.data_ptr(), size)
    count = size // tensor.element_size()
    flat = torch.frombuffer(area, dtype=tensor.dtype, count=count, offset=mmap.PAGESIZE)
    view = flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    if is_writable:
        return view
    library = ctypes.CDLL(None, use_errno=True)
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return view if library.mprotect(start, pages, _PROT_READ) == 0 else tensor
