"""Lists of architectures are read as PyTorch's users write them, and nonsense is refused."""

from __future__ import annotations

import pytest

from opsmith.errors import ToolchainError
from opsmith.toolchain import CudaArch, parse_cuda_archs, parse_rocm_archs

SUPPORTED = ("7.5", "8.0", "9.0", "10.0", "10.3", "12.0", "12.1")


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("9.0", ["arch=compute_90,code=sm_90"]),
        ("9.0+PTX", ["arch=compute_90,code=sm_90", "arch=compute_90,code=compute_90"]),
        ("9.0a", ["arch=compute_90a,code=sm_90a"]),
        ("10.0f", ["arch=compute_100f,code=sm_100f"]),
        ("sm_90", ["arch=compute_90,code=sm_90"]),
        ("sm_100a", ["arch=compute_100a,code=sm_100a"]),
        ("compute_90", ["arch=compute_90,code=compute_90"]),
        ("120", ["arch=compute_120,code=sm_120"]),
    ],
)
def test_the_flags_of_an_architecture(text, flags):
    (arch,) = parse_cuda_archs(text)
    assert arch.gencode == tuple(f"-gencode={flag}" for flag in flags)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("8.0;9.0+PTX", ["8.0", "9.0+PTX"]),
        ("8.0 9.0", ["8.0", "9.0"]),
        (" 8.0, 9.0 ;", ["8.0", "9.0"]),
        ("9.0;8.0", ["8.0", "9.0"]),
        ("10.0;9.0;10.3", ["9.0", "10.0", "10.3"]),
        ("9.0+PTX;9.0", ["9.0+PTX"]),
        ("sm_90;compute_90", ["9.0+PTX"]),
        ("9.0;9.0a", ["9.0", "9.0a"]),
        ("9.0+ptx", ["9.0+PTX"]),
        ("SM_90A", ["9.0a"]),
        ("compute_90", ["9.0 (PTX)"]),
        ("Ampere;Hopper", ["8.0", "8.6+PTX", "9.0+PTX"]),
        ("native", ["7.5", "9.0"]),
        ("native;9.0+PTX", ["7.5", "9.0+PTX"]),
    ],
)
def test_a_list_is_read_sorted_and_merged(text, names):
    assert [str(arch) for arch in parse_cuda_archs(text, native=("9.0", "7.5", "9.0"))] == names


def test_all_means_what_nvcc_supports():
    assert [str(arch) for arch in parse_cuda_archs("all", supported=SUPPORTED)] == [
        *SUPPORTED[:-1],
        "12.1+PTX",
    ]
    assert [str(arch) for arch in parse_cuda_archs("all-major", supported=SUPPORTED)] == [
        "7.5",
        "8.0",
        "9.0",
        "10.0",
        "12.0+PTX",
    ]


@pytest.mark.parametrize(
    "text",
    ["9", "9.", "x", "9.0b", "8.0a", "9.0f", "sm_9", "90.0", "1.0", "9.0+PTY", "9.0-PTX", "9.0.0", "all", ""],
)
def test_nonsense_is_refused(text):
    with pytest.raises(ToolchainError, match=r"is not a CUDA architecture|is empty"):
        parse_cuda_archs(text)


@pytest.mark.parametrize("text", ["gfx90a", "8.0;gfx942:xnack-"])
def test_amd_s_architectures_are_told_from_nonsense(text):
    with pytest.raises(ToolchainError, match=r"is one of AMD's architectures, and this build is for CUDA's"):
        parse_cuda_archs(text)


def test_what_nvcc_does_not_know_is_refused():
    assert parse_cuda_archs("9.0a", supported=SUPPORTED) == (CudaArch(9, 0, "a"),)
    with pytest.raises(ToolchainError, match=r"7\.0 is requested, but this nvcc only compiles for 7\.5, 8\.0"):
        parse_cuda_archs("7.0", supported=SUPPORTED)


def test_native_without_a_gpu_says_what_to_set():
    with pytest.raises(ToolchainError, match=r"no CUDA device was found\. Name the architectures with TORCH_CUDA_ARCH"):
        parse_cuda_archs("native")
    with pytest.raises(
        ToolchainError, match=r"no ROCm device was found\. Name the architectures with PYTORCH_ROCM_ARCH"
    ):
        parse_rocm_archs("native")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gfx942;gfx90a", ["gfx90a", "gfx942"]),
        ("gfx90a gfx90a", ["gfx90a"]),
        ("gfx90a:sramecc+:xnack-", ["gfx90a:sramecc+:xnack-"]),
        ("gfx9-4-generic,gfx1100", ["gfx1100", "gfx9-4-generic"]),
        ("native", ["gfx1201"]),
    ],
)
def test_a_list_of_rocm_architectures(text, names):
    archs = parse_rocm_archs(text, native=("gfx1201",))
    assert [arch.name for arch in archs] == names
    assert archs[0].flags == (f"--offload-arch={names[0]}",)


@pytest.mark.parametrize("text", ["9.0", "gfx", "gfx90a:xnack", "GFX90A", "", "gfx90a-generic-"])
def test_rocm_nonsense_is_refused(text):
    with pytest.raises(ToolchainError, match=r"is not a ROCm architecture|is empty"):
        parse_rocm_archs(text)
