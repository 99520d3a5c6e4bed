"""Memory of a GPU is shared by a descriptor, and where the driver refuses nothing of it is left; a stand-in is asked."""

from __future__ import annotations

import ctypes
import gc
import logging
import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from opsmith.checker.memory.fence_gpu import fenced_on_gpu
from opsmith.checker.memory.gpu_bytes import GpuBytes
from opsmith.checker.memory.gpu_pages import Driver, DriverError, cuda_driver
from opsmith.judging.gpu_area import GpuArea, new_gpu_area

PAGE, MIB = 2 << 20, 1 << 20


class _Library:
    """What libcuda.so.1 does with memory of a GPU, with that of the CPU; the function named `refusing` returns an error."""

    def __init__(self) -> None:
        self.refusing = ""
        self.handles: dict[int, int] = {}
        self.reserved: dict[int, int] = {}
        self.mapped: dict[int, mmap.mmap] = {}
        self.accessible: set[int] = set()
        self._next = 1

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("cuMem"):
            raise AttributeError(name)
        return lambda *arguments: 999 if name == self.refusing else getattr(self, f"_{name}")(*map(_plain, arguments))

    def _number(self) -> int:
        self._next += 1
        return self._next

    def _cuMemGetAllocationGranularity(self, found: Any, kind: Any, option: int) -> int:
        found.value = PAGE
        return 0

    def _cuMemCreate(self, found: Any, size: int, kind: Any, flags: int) -> int:
        assert (kind.type, kind.location.type, flags) == (1, 1, 0)
        assert size % PAGE == 0
        found.value = self._number()
        self.handles[found.value] = os.memfd_create("gpu")
        os.write(self.handles[found.value], b"\x5b" * size)  # what was there before
        return 0 if kind.handle_types in (0, 1) else 1

    def _cuMemAddressReserve(self, found: Any, size: int, alignment: int, address: int, flags: int) -> int:
        found.value = self._number() << 40
        self.reserved[found.value] = size
        return 0

    def _cuMemMap(self, address: int, size: int, offset: int, handle: int, flags: int) -> int:
        assert size <= self.reserved[address]
        self.mapped[address] = mmap.mmap(self.handles[handle], size)
        return 0

    def _cuMemSetAccess(self, address: int, size: int, access: Any, count: int) -> int:
        assert (access.location.type, access.flags, count) == (1, 3, 1)
        self.accessible.add(address)
        return 0

    def _cuMemUnmap(self, address: int, size: int) -> int:
        assert len(self.mapped.pop(address)) == size
        self.accessible.discard(address)
        return 0

    def _cuMemAddressFree(self, address: int, size: int) -> int:
        assert self.reserved.pop(address) == size
        return 0

    def _cuMemRelease(self, handle: int) -> int:
        os.close(self.handles.pop(handle))
        return 0

    def _cuMemExportToShareableHandle(self, found: Any, handle: int, kind: int, flags: int) -> int:
        assert (kind, flags) == (1, 0)
        found.value = os.dup(self.handles[handle])
        return 0

    def _cuMemImportFromShareableHandle(self, found: Any, descriptor: int, kind: int) -> int:
        assert kind == 1
        found.value = self._number()
        self.handles[found.value] = os.dup(descriptor)
        return 0

    def tensor(self, address: int, size: int) -> Tensor:
        assert address in self.accessible
        return torch.frombuffer(self.mapped[address], dtype=torch.uint8)[:size]


def _plain(argument: Any) -> Any:
    """Return what a function of C is given: a number, or what a pointer points to."""
    if hasattr(argument, "_obj"):
        return argument._obj
    return argument.value if isinstance(argument, ctypes._SimpleCData) else argument


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Library]:
    """The stand-in, with a GPU of 8 GiB, of which 4 are free."""
    made = _Library()
    monkeypatch.setattr("opsmith.judging.gpu_area.cuda_driver", lambda: Driver(made))
    monkeypatch.setattr("opsmith.checker.memory.fence_gpu.cuda_driver", lambda: Driver(made))
    monkeypatch.setattr(GpuBytes, "tensor", lambda self, device="cuda": made.tensor(self.address, self.size))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (4 << 30, 8 << 30))
    descriptors = _open_descriptors()
    yield made
    assert made.handles == made.reserved == made.mapped == {}
    assert _open_descriptors() <= descriptors


def _open_descriptors() -> int:
    gc.collect()  # what other tests have left open closes now, not meanwhile
    return len(list(Path("/proc/self/fd").iterdir()))


def test_two_processes_have_the_same_memory(library: _Library) -> None:
    mine = GpuArea(3 * MIB)
    assert mine.size == 4 * MIB
    assert mine.descriptor == mine.descriptor
    theirs = GpuArea(mine.size, os.dup(mine.descriptor))
    assert not theirs.bytes.any()
    mine.bytes[MIB] = 7
    assert theirs.bytes[MIB] == 7
    theirs.bytes[0] = 9
    assert mine.bytes[0] == 9
    assert len(library.mapped) == 2
    for area in (mine, theirs, mine):
        area.close()


_MAKING = ("cuMemGetAllocationGranularity", "cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess")


@pytest.mark.parametrize("name", [*_MAKING, "cuMemExportToShareableHandle"])
def test_where_the_driver_refuses_nothing_is_left(
    name: str, library: _Library, caplog: pytest.LogCaptureFixture
) -> None:
    library.refusing = name
    with caplog.at_level(logging.DEBUG, "opsmith.judging"):
        assert new_gpu_area() is None
    assert [one.levelname for one in caplog.records] == ["DEBUG"]
    assert f"{name} returns 999" in caplog.text


@pytest.mark.parametrize("name", ["cuMemImportFromShareableHandle", *_MAKING[2:]])
def test_where_the_other_side_cannot_map_it_nothing_is_left(name: str, library: _Library) -> None:
    mine = GpuArea(MIB)
    descriptor = os.dup(mine.descriptor)
    library.refusing = name
    with pytest.raises(DriverError, match=name):
        GpuArea(mine.size, descriptor)
    library.refusing = ""
    mine.close()


def test_a_part_of_what_is_free_is_shared(library: _Library, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    for free in (4 << 30, 800 * MIB, 100 * MIB):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda free=free: (free, 8 << 30))
        area = new_gpu_area()
        sizes.append(None if area is None else area.size)
        if area is not None:
            area.close()
    assert sizes == [256 * MIB, 100 * MIB, None]


def test_other_gpus_have_no_such_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(DriverError, match="is not one of CUDA"):
        cuda_driver.__wrapped__()


def test_an_old_driver_lacks_the_functions() -> None:
    with pytest.raises(DriverError, match="does not have cuMemCreate"):
        Driver(object()).create(PAGE, 0)


def test_a_tensor_ends_where_memory_does(library: _Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, "get_device", lambda self: 0)
    ends = []

    def tensor(self: GpuBytes, device: object) -> Tensor:
        ends.append(self.address + self.size)
        return torch.empty(self.size, dtype=torch.uint8)

    monkeypatch.setattr(GpuBytes, "tensor", tensor)
    x = torch.randn(700_000)
    assert torch.equal(fenced_on_gpu(x), x)
    ((start, reserved),) = library.reserved.items()
    assert ends == [start + 2 * PAGE]
    assert reserved == 3 * PAGE  # the last one is empty
    for address in list(library.mapped):
        library._cuMemUnmap(address, 2 * PAGE)
        library._cuMemAddressFree(address, 3 * PAGE)
    for handle in list(library.handles):
        library._cuMemRelease(handle)


@pytest.mark.parametrize("name", _MAKING)
def test_where_there_is_no_such_end_a_tensor_stays(name: str, library: _Library) -> None:
    x = torch.ones(3)
    library.refusing = name
    assert fenced_on_gpu(x) is x
