"""The architectures in a library are those that nvcc has compiled for, and the targets those of clang's bundles."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_code import as_section, bundle, fat_binary
from make_library import library

from compilers import compiled, find_compiler
from opsmith.errors import AuditError
from opsmith.package.audit.fatbin import amd_targets, cuda_archs
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


def test_amd_targets_are_read():
    found = describe_library("_ops.so", library(code=as_section(".hip_fatbin", bundle("gfx90a", "gfx942:xnack-"))))
    assert found.amd == ("gfx90a", "gfx942:xnack-")
    assert not found.amd_is_compressed
    assert describe_library("_ops.so", library(code=as_section(".hip_fatbin", b"CCOB" + bytes(60)))).amd_is_compressed


@pytest.mark.compile
def test_what_nvcc_compiles_for_is_found(tmp_path):
    nvcc = find_compiler("nvcc")
    source = tmp_path / "kernel.cu"
    source.write_text("__global__ void twice(float* x) { x[threadIdx.x] *= 2; }\n", encoding="utf-8")
    codes = ("arch=compute_80,code=sm_80", "arch=compute_90a,code=sm_90a", "arch=compute_90,code=compute_90")
    built = compiled(source, nvcc, "-shared", "-cudart", "none", *(f"-gencode={code}" for code in codes))
    assert archs_of(Path(built).read_bytes()) == ["8.0", "9.0 (PTX)", "9.0a"]


def test_a_library_without_gpu_code_has_none():
    found = describe_library("_ops.so", library())
    assert cuda_archs(library(), found.elf) == ()
    assert amd_targets(library(), found.elf) == ((), False)
