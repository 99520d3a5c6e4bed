"""What comes to the memory in use on a GPU is held against what a candidate may take; the numbers need no GPU."""

from __future__ import annotations

import pytest

from opsmith.errors import ArgumentError
from opsmith.judging.gpu_memory import GpuMemory
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


def test_memory_that_is_given_back_is_no_excess() -> None:
    used = [5000 * MIB]
    memory = GpuMemory(1000 * MIB, lambda: used[0])
    used[0] = 100 * MIB
    assert memory.excess(0) is None


def test_an_impossible_limit_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="gpu_memory_gib must be more than 0"):
        JudgeOptions(gpu_memory_gib=0.0)
