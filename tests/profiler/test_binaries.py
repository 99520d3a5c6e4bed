"""What cuobjdump and ncu print, and what is read from it."""

from __future__ import annotations

from opsmith.profiler.ncu import parse_ncu
from opsmith.profiler.resources import Resources, of_kernel, parse_usage

USAGE = """
Resource usage:
 Common:
  GLOBAL:0
 Function _Z3addIfEvPKT_PS0_l:
  REG:24 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:552 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function _Z4heapIdEvPT_:
  REG:255 STACK:304 SHARED:4096 LOCAL:16 CONSTANT[0]:368 TEXTURE:0 SURFACE:0 SAMPLER:0
"""

NCU = """==PROF== Connected to process 1
==PROF== Profiling "k": 0%....50%....100% - 3 passes
==PROF== Disconnected from process 1
"ID","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum","gpu__time_duration.sum",\
"launch__registers_per_thread","sm__warps_active.avg.pct_of_peak_sustained_active"
"","","byte","byte","nsecond","register/thread","%"
"0","void add<float>(const float *, float *, long)","8,388,608","4,194,304","5,120","24","87.50"
"""


def test_each_kernel_has_its_registers_and_what_spilled() -> None:
    assert parse_usage(USAGE) == {
        "_Z3addIfEvPKT_PS0_l": Resources(24, 0, 0),
        "_Z4heapIdEvPT_": Resources(255, 4096, 320),
    }


def test_a_kernel_is_found_however_its_name_is_written() -> None:
    known = {"voidrows<128>": Resources(32, 0, 0)}
    assert of_kernel(known, "void rows<(int)128>(float *, long)") == Resources(32, 0, 0)
    assert of_kernel(known, "void rows<128>(T1 *, long)") == Resources(32, 0, 0)
    assert of_kernel(known, "void rows<64>(float*, long)") is None


def test_counters_are_read_in_plain_units() -> None:
    (kernel,) = parse_ncu(NCU, 0)["kernels"]
    assert kernel == {
        "name": "void add<float>(const float *, float *, long)",
        "seconds": 5120 * 1e-9,
        "dram_read_bytes": 8388608,
        "dram_written_bytes": 4194304,
        "occupancy": 0.875,
        "registers": 24,
    }


def test_who_may_not_read_the_counters_is_told_why_and_what_to_do() -> None:
    said = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters"
    assert "ERR_NVGPUCTRPERM" in parse_ncu(said, 1)["missing"]
    assert "run as root" in parse_ncu(said, 1)["missing"]


def test_another_failure_of_ncu_is_quoted() -> None:
    missing = parse_ncu("==PROF== Connected\n==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n", 255)[
        "missing"
    ]
    assert (
        missing
        == "ncu reported nothing (exit status 255): ==ERROR== Failed to initialize the profiler: LibraryNotLoaded"
    )
