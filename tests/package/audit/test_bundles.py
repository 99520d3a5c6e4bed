"""The targets in a library are those of clang's bundles, compressed or not."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

import pytest
from gpu_code import as_section, bundle, compressed_bundle
from make_library import library

from compilers import compiled, find_compiler
from opsmith.errors import AuditError
from opsmith.package.audit import bundles
from opsmith.package.audit.facts import Library
from opsmith.package.audit.library import describe_library

# Of clang-offload-bundler 19.1.7 with -compress, for gfx90a and gfx942:xnack-.
BY_ZSTD = base64.b64decode(
    "Q0NPQgIAAQCgAAAAZQEAABiIrEd8TBbUKLUv/WBlAPUDAPQFX19DTEFOR19PRkZMT0FEX0JVTkRMRV9fAwDlADwAaG9zdC14ODZf"
    "NjQtdW5rbm93bi1saW51eC1nbnUtQB1pcC1hbWRnY25oc2EtLWdmeDkwYSUBJDQyOnhuYWNrLQAMAByXInAurOR3HFTWgXfg+Aqv"
    "NSjhAIaBxGJgDA=="
)


def described(code: bytes) -> Library:
    return describe_library("_ops.so", library(code=as_section(".hip_fatbin", code)))


def test_targets_are_read():
    found = described(bundle("gfx90a", "gfx942:xnack-"))
    assert found.amd == ("gfx90a", "gfx942:xnack-")
    assert not found.amd_is_unread


@pytest.mark.parametrize("version", [1, 2, 3])
def test_targets_of_compressed_bundles_are_read(version):
    found = described(compressed_bundle("gfx90a", version=version) + bytes(64))
    assert found.amd == ("gfx90a",)
    assert not found.amd_is_unread


def test_every_bundle_of_a_section_is_read():
    code = b"".join(
        part + bytes(-len(part) % 4096 or 4096)
        for part in (compressed_bundle("gfx90a"), bundle("gfx1030"), compressed_bundle("gfx942", version=3))
    )
    assert described(code).amd == ("gfx1030", "gfx90a", "gfx942")


def test_bundles_by_zstd_are_read_where_python_has_it(monkeypatch):
    code = BY_ZSTD + bytes(-len(BY_ZSTD) % 4096) + bundle("gfx1100")
    if bundles._decompressor(1) is not None:
        assert described(code).amd == ("gfx1100", "gfx90a", "gfx942:xnack-")

    def without(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(bundles, "import_module", without)
    found = described(code)
    assert (found.amd, found.amd_is_unread) == (("gfx1100",), True)


def test_an_unknown_version_is_not_read():
    found = described(b"CCOB" + struct.pack("<HH", 9, 1) + bytes(60))
    assert (found.amd, found.amd_is_unread) == ((), True)


@pytest.mark.parametrize(
    "code",
    [
        compressed_bundle("gfx90a")[:12],
        compressed_bundle("gfx90a")[:-8],
        compressed_bundle("gfx90a")[:24] + b"\xff" * 120,
        b"CCOB" + struct.pack("<HHIIQ", 2, 0, 5, 9, 0) + bytes(40),
        b"__CLANG_OFFLOAD_BUNDLE__" + b"\xff" * 40,
        b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<QQQQ", 1, 0, 0, 1 << 40),
        b"__CLANG_OFFLOAD_BUNDLE__",
    ],
)
def test_a_damaged_bundle_is_refused(code):
    with pytest.raises(AuditError, match=r"bundle in \.hip_fatbin is (?:damaged|truncated)"):
        described(code)


@pytest.mark.compile
def test_what_hipcc_compiles_for_is_found(tmp_path, monkeypatch):
    hipcc = find_compiler("hipcc")
    monkeypatch.setenv("HIP_PLATFORM", "amd")
    source = tmp_path / "kernel.hip"
    source.write_text("#include <hip/hip_runtime.h>\n__global__ void twice(float* x) { x[threadIdx.x] *= 2; }\n")
    archs = ("--offload-arch=gfx90a", "--offload-arch=gfx1030")
    built = compiled(source, hipcc, "-x", "hip", "-shared", "-fPIC", *archs)
    found = describe_library("_ops.so", Path(built).read_bytes())
    assert found.amd == ("gfx1030", "gfx90a")
    assert found.sizes.gpu > 0
