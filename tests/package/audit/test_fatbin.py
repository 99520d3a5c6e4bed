"""The architectures in a library are those that nvcc has compiled for, and the driver the one that its code needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from gpu_code import as_section, fat_binary
from make_library import library

from compilers import compiled, find_compiler, run
from opsmith.errors import AuditError
from opsmith.package.audit.driver import find_driver
from opsmith.package.audit.fatbin import cuda_code
from opsmith.package.audit.library import describe_library


def archs_of(data: bytes) -> list[str]:
    return [str(arch) for arch in describe_library("_ops.so", data).cuda]


def test_machine_code_and_ptx_are_told_apart():
    data = library(code=as_section(".nv_fatbin", fat_binary("80", "90", "90 PTX", "100f", "100a PTX")))
    assert archs_of(data) == ["8.0", "9.0+PTX", "10.0a (PTX)", "10.0f"]


def test_several_fat_binaries_are_read():
    data = library(code=as_section(".nv_fatbin", fat_binary("80") + bytes(16) + fat_binary("90")))
    assert archs_of(data) == ["8.0", "9.0"]


@pytest.mark.parametrize("code", [fat_binary("80")[:-8] + b"", fat_binary("80")[:8] + b"\xff" * 8 + bytes(200)])
def test_a_damaged_fat_binary_is_refused(code):
    with pytest.raises(AuditError, match="fat binary"):
        describe_library("_ops.so", library(code=as_section(".nv_fatbin", code)))


@pytest.mark.parametrize(
    ("code", "driver", "reason"),
    [
        (fat_binary("80", "90", "90 PTX"), "580 or newer", "its code is CUDA 13's; its PTX needs one for CUDA 13.0"),
        (
            fat_binary("80", "90 PTX", cubin=(1, 7), ptx_isa=(8, 4)),
            "525 or newer",
            "its code is CUDA 12's; its PTX needs one for CUDA 12.4",
        ),
        (
            fat_binary("90 PTX", ptx_isa=(8, 7)),
            "525 or newer",
            "its code is CUDA 12's; its PTX needs one for CUDA 12.8",
        ),
        (fat_binary("90"), "580 or newer", "its code is CUDA 13's"),
        (
            fat_binary("90 PTX", ptx_isa=(10, 0)),
            "one for CUDA 14 or newer",
            "its code is CUDA 14's; its PTX needs one for CUDA 14.0",
        ),
    ],
)
def test_the_driver_follows_from_the_code(code, driver, reason):
    need = find_driver([describe_library("_ops.so", library(code=as_section(".nv_fatbin", code)))])
    assert (need.text, need.reason) == (driver, reason)


def test_machine_code_alone_does_not_tell_cuda_12_from_what_was_before():
    data = library(code=as_section(".nv_fatbin", fat_binary("80", cubin=(1, 7))))
    assert find_driver([describe_library("_ops.so", data)]) is None


@pytest.mark.compile
def test_what_nvcc_compiles_for_is_found(tmp_path):
    nvcc = find_compiler("nvcc")
    source = tmp_path / "kernel.cu"
    source.write_text("__global__ void twice(float* x) { x[threadIdx.x] *= 2; }\n", encoding="utf-8")
    codes = ("arch=compute_80,code=sm_80", "arch=compute_90a,code=sm_90a", "arch=compute_90,code=compute_90")
    built = compiled(source, nvcc, "-shared", "-cudart", "none", *(f"-gencode={code}" for code in codes))
    data = Path(built).read_bytes()
    assert archs_of(data) == ["8.0", "9.0 (PTX)", "9.0a"]
    release = re.search(r"release (\d+)\.(\d+)", run(nvcc, "--version").stdout)
    need = find_driver([describe_library("_ops.so", data)])
    assert need.cuda == int(release[1])
    assert need.ptx <= (int(release[1]), int(release[2]))


def test_a_library_without_gpu_code_has_none():
    found = describe_library("_ops.so", library())
    assert cuda_code(library(), found.elf) == ((), (0, 0), None)
    assert find_driver([found]) is None
