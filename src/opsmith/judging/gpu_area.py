"""Shares a piece of a GPU's memory with a candidate's process: what is written there never goes by the host.

The driver gives memory that belongs to no address space (`cuMemCreate`), a file descriptor for it, and its place in each
process. Neither side can make it smaller, and a fault of the one leaves the other as it is.
"""

from __future__ import annotations

import logging
import os
from typing import Protocol

import torch
from torch import Tensor

from opsmith.checker.memory.gpu_bytes import GpuBytes
from opsmith.checker.memory.gpu_pages import Driver, DriverError, cuda_driver

__all__ = ["GpuArea", "Passage", "new_gpu_area"]

_log = logging.getLogger("opsmith.judging")
# What is copied in far more time than a message takes. No more than this part of what is free: the GPU is the candidate's.
_MOST_BYTES, _PART, _LEAST_BYTES = 256 << 20, 1 / 8, 16 << 20


class Passage(Protocol):
    """Memory that both processes have mapped, as a `GpuArea` is."""

    size: int
    bytes: Tensor

    @property
    def descriptor(self) -> int: ...  # noqa: D102

    def close(self) -> None: ...  # noqa: D102


class GpuArea:
    """A piece of the current GPU's memory. `bytes` is all of it as a tensor of uint8.

    Both processes may write to it at any time, a candidate's by a kernel that goes on while its process stands still, too.
    """

    def __init__(self, size: int, descriptor: int | None = None, driver: Driver | None = None) -> None:
        """Make one of a size, or map another process's, whose descriptor is closed; raises DriverError."""
        self._driver = driver or cuda_driver()
        device = torch.cuda.current_device()
        page = self._driver.page_bytes(device)
        self.size = -(-max(size, 1) // page) * page
        self._descriptor, self._is_open = -1, True
        if descriptor is None:
            self._handle = self._driver.create(self.size, device, is_shareable=True)
        else:
            try:
                self._handle = self._driver.imported(descriptor)
            finally:
                os.close(descriptor)
        try:
            self._address = self._driver.map(self._handle, self.size, device)
        except DriverError:
            self._driver.release(self._handle)
            raise
        self.bytes: Tensor = GpuBytes(self._address, self.size).tensor()
        if descriptor is None:
            # What this process has freed may lie there.
            self.bytes.zero_()
            torch.cuda.synchronize()

    @property
    def descriptor(self) -> int:
        """A file by which another process can map it; raises DriverError."""
        if self._descriptor < 0:
            self._descriptor = self._driver.exported(self._handle)
        return self._descriptor

    def close(self) -> None:
        """Unmap it here: nothing may use its `bytes` any more. The memory goes when no process has it."""
        if not self._is_open:
            return
        self._is_open = False
        self.bytes = torch.empty(0, dtype=torch.uint8)
        if self._descriptor >= 0:
            os.close(self._descriptor)
        torch.cuda.synchronize()
        try:
            self._driver.unmap(self._address, self.size)
            self._driver.release(self._handle)
        except DriverError as error:
            _log.debug("memory of the GPU is not given back: %s", error)


def new_gpu_area() -> GpuArea | None:
    """Return memory for a candidate's process; None where the driver cannot share any, or little is free."""
    size = int(min(_MOST_BYTES, _PART * torch.cuda.mem_get_info()[0]))
    if size < _LEAST_BYTES:
        return None
    area = None
    try:
        area = GpuArea(size)
        _log.debug("%d MiB of the GPU are shared by descriptor %d", area.size >> 20, area.descriptor)
    except DriverError as error:
        _log.debug("tensors cross by the host's memory: %s", error)
        if area is not None:
            area.close()
        return None
    return area
