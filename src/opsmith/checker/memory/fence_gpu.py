"""Puts a tensor at the end of memory behind which a GPU finds none, by CUDA's functions for virtual memory.

CUDA gives memory in pieces of 2 MiB; PyTorch's allocator puts many tensors into one, so that reading past the end of a
tensor is seldom an error. Here each tensor has pieces of its own, at the beginning of a longer range of addresses.
"""

from __future__ import annotations

import ctypes
from functools import cache

import torch
from torch import Tensor

from opsmith.checker.memory.gpu_bytes import GpuBytes

__all__ = ["fenced_on_gpu"]

# Of CUDA's driver: cuMemAllocationType, cuMemLocationType, cuMemAccess_flags.
_PINNED, _ON_DEVICE, _READ_AND_WRITE = 1, 1, 3
_ALIGNMENT = 16  # bytes; of the longest vector


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("device", ctypes.c_int))


class _Kind(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("of_windows", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


def fenced_on_gpu(tensor: Tensor) -> Tensor:
    """Return a copy of a contiguous tensor that ends where memory does; itself where that cannot be had.

    It begins as PyTorch's tensors do, so that vectors may be read, and may end up to 15 bytes before.
    """
    size = tensor.numel() * tensor.element_size()
    end = _end_of_memory(size, tensor.get_device())
    if end is None:
        return tensor
    flat = GpuBytes(end - -(-size // _ALIGNMENT) * _ALIGNMENT, size).tensor(tensor.device).view(tensor.dtype)
    return flat.view(tensor.shape).copy_(tensor)


def _end_of_memory(size: int, device: int) -> int | None:
    """Return the address at which memory of at least that size ends, with none behind it; None where CUDA refuses."""
    driver = _driver()
    if driver is None:
        return None
    location = _Location(_ON_DEVICE, device)
    kind = _Kind(_PINNED, 0, location)
    piece, start, handle = ctypes.c_size_t(), ctypes.c_uint64(), ctypes.c_uint64()
    if driver.cuMemGetAllocationGranularity(ctypes.byref(piece), ctypes.byref(kind), 0):
        return None
    held = -(-size // piece.value) * piece.value
    access = _Access(location, _READ_AND_WRITE)
    length, none, with_rest = ctypes.c_size_t(held), ctypes.c_size_t(0), ctypes.c_size_t(held + piece.value)
    is_refused = (
        driver.cuMemAddressReserve(ctypes.byref(start), with_rest, none, ctypes.c_uint64(0), none)
        or driver.cuMemCreate(ctypes.byref(handle), length, ctypes.byref(kind), none)
        or driver.cuMemMap(start, length, none, handle, none)
        or driver.cuMemSetAccess(start, length, ctypes.byref(access), ctypes.c_size_t(1))
    )
    return None if is_refused else start.value + held


@cache
def _driver() -> ctypes.CDLL | None:
    """Return CUDA's driver as PyTorch has loaded it, or None on other GPUs."""
    if torch.version.cuda is None:
        return None
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
