"""What comes to the memory in use on a GPU is held against what a candidate may take; none of this needs a GPU."""

from __future__ import annotations

import pytest
import torch

from opsmith.errors import ArgumentError
from opsmith.judging import gpu_memory
from opsmith.judging.gpu_memory import GpuMemory
from opsmith.judging.inside.mirror import Mirror
from opsmith.judging.memory import Area
from opsmith.judging.options import JudgeOptions
from opsmith.judging.refusals import Refusal

MIB = 1 << 20


def test_only_what_comes_to_it_counts() -> None:
    used = [5000 * MIB]
    memory = GpuMemory(1000 * MIB, lambda: used[0])
    assert memory.excess(0) is None
    used[0] += 1900 * MIB  # what the driver, the judge and the next process take beside it
    assert memory.excess(0) is None
    used[0] += 400 * MIB
    charge = memory.excess(0)
    assert charge is not None
    assert charge.refusal is Refusal.OVER_MEMORY
    assert charge.message.startswith("2300 MiB more of the GPU's memory are in use, and it may take 1000")
    # Inputs are the judge's, and lie there more than once.
    assert memory.excess(200 * MIB) is None
    # What they go through is, too, once.
    assert memory.excess(0, 200 * MIB) is not None
    assert memory.excess(0, 300 * MIB) is None


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait less long for what others give back."""
    monkeypatch.setattr(gpu_memory, "_GIVEN_BACK_S", 0.2)


def test_memory_that_is_given_back_soon_is_no_excess() -> None:
    used = iter([5000 * MIB, 9000 * MIB, 9000 * MIB, 5000 * MIB])
    memory = GpuMemory(1000 * MIB, lambda: next(used))
    assert memory.excess(0) is None
    assert next(used, None) is None


def test_memory_that_is_given_back_is_no_excess() -> None:
    used = [5000 * MIB]
    memory = GpuMemory(1000 * MIB, lambda: used[0])
    used[0] = 100 * MIB
    assert memory.excess(0) is None


def test_an_impossible_limit_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="gpu_memory_gib must be more than 0"):
        JudgeOptions(gpu_memory_gib=0.0)


def test_a_gpu_has_no_more_of_the_host_s_memory_than_inputs_take(monkeypatch: pytest.MonkeyPatch) -> None:
    from opsmith.judging.inside.devices_cuda import Cuda

    device = object.__new__(Cuda)  # without a GPU: a mirror on the CPU
    device.held = Mirror("cpu")
    monkeypatch.setattr(Cuda, "name", "cpu")
    monkeypatch.setattr(Cuda, "make_room", lambda *_: None)
    area = Area(1 << 16)
    area.bytes.copy_(torch.arange(1 << 16).to(torch.uint8))
    held = device.mirror(area, 4096, keep=False, leave=False)
    assert held.size == 4096
    assert torch.equal(held.part(0, 4096, torch.uint8), area.bytes[:4096])
    held.part(10, 1, torch.uint8).fill_(0xAA)
    area.bytes.fill_(1)
    device.write_back(area)
    assert area.bytes[10] == 0xAA
    assert area.bytes[9] == 9
    assert bool((area.bytes[4096:] == 1).all())
    # As many bytes again come to the same place, where that is wanted, and others elsewhere.
    first = held.content
    assert device.mirror(area, 4096, keep=True, leave=False).content is first
    assert device.mirror(area, 8192, keep=True, leave=False).content is not first
    area.close()
