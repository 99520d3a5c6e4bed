"""The kernels that opsmith has embedded are found with their architectures, and damaged ones are refused."""

from __future__ import annotations

import struct

import pytest
from gpu_code import as_section
from make_library import library

from opsmith.errors import AuditError
from opsmith.package.audit.judge.gpu import missing_archs
from opsmith.package.audit.library import describe_library
from opsmith.toolchain.archs import parse_cuda_archs


def image(arch: int, *, ptx: bool = False, exact: bool = False, size: int = 20) -> bytes:
    """Return one image as build/ahead/compile_kernels/images.py writes it, filled up to a multiple of 16 bytes."""
    data = struct.pack("<8sIIIxxxxQ", b"OPSMITHK", 1 if ptx else 2, arch, exact, size) + b"\x01" * size
    return data + b"\0" * (-len(data) % 16)


def amd_image(arch: int) -> bytes:
    """Return likewise one for an AMD GPU, whose number is as its name is in hexadecimal digits."""
    return image(arch, exact=True).replace(struct.pack("<I", 2), struct.pack("<I", 3), 1)


def described(code: bytes):
    return describe_library("_ops.so", library(code=as_section(".opsmith_images", code)))


def test_machine_code_and_ptx_of_each_architecture():
    found = described(image(80) + image(90, exact=True) + image(80, ptx=True, size=33) + image(90, exact=True))
    assert [str(arch) for arch in found.cuda] == ["8.0+PTX", "9.0a"]
    assert found.sizes.gpu > 0


def test_machine_code_for_amd_s_gpus():
    found = described(amd_image(0x942) + amd_image(0x90A) + amd_image(0x90A) + amd_image(0x1100))
    assert (found.cuda, found.amd) == ((), ("gfx1100", "gfx90a", "gfx942"))
    assert found.sizes.gpu > 0


@pytest.mark.parametrize("code", [image(80)[:-4] + image(90), image(80, size=20)[:24] + b"\xff" * 8, b"x" * 64])
def test_a_damaged_section_is_refused(code: bytes):
    with pytest.raises(AuditError, match=r"kernels in \.opsmith_images are damaged"):
        described(code)


def test_no_kernels_of_ours_in_other_sections():
    assert [str(arch) for arch in describe_library("x.so", library(code=as_section(".data", image(80)))).cuda] == []


@pytest.mark.parametrize(
    ("wanted", "found", "missing"),
    [
        ("8.0;9.0+PTX", "8.0+PTX;9.0a", []),
        ("9.0+PTX", "9.0a", ["9.0 (PTX)"]),
        ("9.0", "9.0a", []),
        ("9.0a", "9.0", ["9.0a"]),
        ("9.0+PTX", "8.0+PTX", ["9.0+PTX"]),
    ],
)
def test_what_triton_makes_of_the_architectures_asked_for(wanted: str, found: str, missing: list[str]):
    assert [str(arch) for arch in missing_archs(parse_cuda_archs(wanted), parse_cuda_archs(found))] == missing
