"""Asks CUDA's driver for pages of a GPU's memory, and for addresses at which they lie.

The driver is opened where it is first asked, as PyTorch has loaded it, and nothing is linked against it.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import torch

__all__ = ["Driver", "DriverError", "cuda_driver"]

# Of CUDA's driver: cuMemAllocationType, cuMemLocationType, cuMemAccess_flags, cuMemAllocationHandleType.
_PINNED, _ON_DEVICE, _READ_AND_WRITE, _POSIX_DESCRIPTOR = 1, 1, 3, 1


class DriverError(Exception):
    """A function of the driver has refused, or there is no driver."""


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


class Driver:
    """The functions for virtual memory of a loaded libcuda.so.1; each raises DriverError where it refuses."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def page_bytes(self, device: int) -> int:
        """Return the size of which memory and addresses are multiples."""
        found = ctypes.c_size_t()
        self._call("cuMemGetAllocationGranularity", ctypes.byref(found), ctypes.byref(_kind(device, False)), 0)
        return found.value

    def create(self, size: int, device: int, *, is_shareable: bool = False) -> int:
        """Return a handle of memory, which another process can have where it is shareable."""
        handle, kind = ctypes.c_uint64(), _kind(device, is_shareable)
        self._call("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(kind), ctypes.c_uint64(0))
        return handle.value

    def map(self, handle: int, size: int, device: int, reserved_bytes: int = 0) -> int:
        """Return the address of memory, for reading and writing; so many are reserved for it, and the rest is empty."""
        address, length, none = ctypes.c_uint64(), ctypes.c_size_t(size), ctypes.c_uint64(0)
        reserved, nowhere = ctypes.c_size_t(max(size, reserved_bytes)), ctypes.c_size_t(0)
        self._call("cuMemAddressReserve", ctypes.byref(address), reserved, nowhere, none, none)
        access = _Access(_Location(_ON_DEVICE, device), _READ_AND_WRITE)
        try:
            self._call("cuMemMap", address, length, nowhere, ctypes.c_uint64(handle), none)
            try:
                self._call("cuMemSetAccess", address, length, ctypes.byref(access), ctypes.c_size_t(1))
            except DriverError:
                self._library.cuMemUnmap(address, length)
                raise
        except DriverError:
            self._library.cuMemAddressFree(address, reserved)
            raise
        return address.value

    def unmap(self, address: int, size: int) -> None:
        """Give memory's address back; no kernel may be using it."""
        self._call("cuMemUnmap", ctypes.c_uint64(address), ctypes.c_size_t(size))
        self._call("cuMemAddressFree", ctypes.c_uint64(address), ctypes.c_size_t(size))

    def release(self, handle: int) -> None:
        """Give a handle back; the memory goes when nobody has it mapped."""
        self._call("cuMemRelease", ctypes.c_uint64(handle))

    def exported(self, handle: int) -> int:
        """Return a file descriptor by which another process can have shareable memory."""
        found = ctypes.c_int(-1)
        arguments = ctypes.c_uint64(handle), ctypes.c_int(_POSIX_DESCRIPTOR), ctypes.c_uint64(0)
        self._call("cuMemExportToShareableHandle", ctypes.byref(found), *arguments)
        return found.value

    def imported(self, descriptor: int) -> int:
        """Return a handle of another process's memory."""
        handle = ctypes.c_uint64()
        arguments = ctypes.c_void_p(descriptor), ctypes.c_int(_POSIX_DESCRIPTOR)
        self._call("cuMemImportFromShareableHandle", ctypes.byref(handle), *arguments)
        return handle.value

    def _call(self, name: str, *arguments: Any) -> None:
        try:
            status = getattr(self._library, name)(*arguments)
        except AttributeError:
            raise DriverError(f"this driver does not have {name}") from None
        if status:
            raise DriverError(f"{name} returns {status}")


def _kind(device: int, is_shareable: bool) -> _Kind:
    return _Kind(_PINNED, _POSIX_DESCRIPTOR if is_shareable else 0, _Location(_ON_DEVICE, device))


@cache
def cuda_driver() -> Driver:
    """Return the driver; raises DriverError where there is none, as for other GPUs."""
    if torch.version.cuda is None:
        raise DriverError("this PyTorch is not one of CUDA")
    try:
        return Driver(ctypes.CDLL("libcuda.so.1"))
    except OSError as error:
        raise DriverError(str(error)) from None
