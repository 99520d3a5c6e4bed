"""Puts a tensor at the end of memory behind which a GPU finds none, by CUDA's functions for virtual memory.

CUDA gives memory in pieces of 2 MiB; PyTorch's allocator puts many tensors into one, so that reading past the end of a
tensor is seldom an error. Here each tensor has pieces of its own, at the beginning of a longer range of addresses.
"""

from __future__ import annotations

from torch import Tensor

from opsmith.checker.memory.gpu_bytes import GpuBytes
from opsmith.checker.memory.gpu_pages import DriverError, cuda_driver

__all__ = ["fenced_on_gpu"]

_ALIGNMENT = 16  # bytes; of the longest vector


def fenced_on_gpu(tensor: Tensor) -> Tensor:
    """Return a copy of a contiguous tensor that ends where memory does; itself where that cannot be had.

    It begins as PyTorch's tensors do, so that vectors may be read, and may end up to 15 bytes before.
    """
    size = tensor.numel() * tensor.element_size()
    try:
        end = _end_of_memory(size, tensor.get_device())
    except DriverError:
        return tensor
    flat = GpuBytes(end - -(-size // _ALIGNMENT) * _ALIGNMENT, size).tensor(tensor.device).view(tensor.dtype)
    return flat.view(tensor.shape).copy_(tensor)


def _end_of_memory(size: int, device: int) -> int:
    """Return the address at which memory of at least that size ends, with none behind it; raises DriverError."""
    driver = cuda_driver()
    piece = driver.page_bytes(device)
    held = -(-size // piece) * piece
    handle = driver.create(held, device)
    try:
        return driver.map(handle, held, device, held + piece) + held
    except DriverError:
        driver.release(handle)
        raise
