"""hipcc is found where users have it, with HIP's headers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from opsmith.errors import ToolchainError
from opsmith.toolchain import find_rocm_compiler

ANSWER = """HIP version: 6.3.42131-fa1d09cbd
AMD clang version 18.0.0git (https://github.com/RadeonOpenCompute/llvm-project roc-6.3.0 24455)
Target: x86_64-unknown-linux-gnu
InstalledDir: /opt/rocm-6.3.0/lib/llvm/bin
"""


@pytest.fixture(autouse=True)
def no_real_rocm(machine, monkeypatch):
    is_executable = sys.modules["opsmith.toolchain.search"].is_executable
    monkeypatch.setattr(
        "opsmith.toolchain.rocm.is_executable",
        lambda path: not path.is_relative_to("/opt/rocm") and is_executable(path),
    )


@pytest.fixture
def put_rocm(machine):
    def do(root: Path, include: str = "include", answer: str = ANSWER) -> Path:
        header = root / include / "hip/hip_runtime.h"
        header.parent.mkdir(parents=True)
        header.touch()
        return machine.put(root / "bin/hipcc", answer)

    return do


def test_a_toolkit_is_described(probes, put_rocm, monkeypatch, tmp_path):
    hipcc = put_rocm(tmp_path / "rocm")
    monkeypatch.setenv("ROCM_PATH", str(tmp_path / "rocm"))
    rocm = find_rocm_compiler(probes=probes)
    assert (rocm.hipcc, rocm.root, rocm.version) == (hipcc, tmp_path / "rocm", "6.3.42131-fa1d09cbd")
    assert rocm.include == tmp_path / "rocm/include"
    assert "roc-6.3.0" in rocm.identity
    assert str(tmp_path) not in rocm.identity


def test_noise_around_the_version_does_not_matter(probes, put_rocm, monkeypatch, tmp_path):
    put_rocm(tmp_path / "rocm", answer="Traceback: no /sys/class/kfd\nHIP version: 5.2.21153-0\n")
    monkeypatch.setenv("ROCM_PATH", str(tmp_path / "rocm"))
    assert find_rocm_compiler(probes=probes).version == "5.2.21153-0"


def test_a_link_on_path_is_seen_through(machine, probes, put_rocm, tmp_path):
    hipcc = put_rocm(tmp_path / "rocm")
    (machine.bin / "hipcc").symlink_to(hipcc)
    assert find_rocm_compiler(probes=probes).root == tmp_path / "rocm"


def test_the_old_place_of_hips_headers(probes, put_rocm, monkeypatch, tmp_path):
    put_rocm(tmp_path / "rocm", include="hip/include")
    monkeypatch.setenv("ROCM_HOME", str(tmp_path / "rocm"))
    assert find_rocm_compiler(probes=probes).include == tmp_path / "rocm/hip/include"


def test_a_wrong_choice_is_not_replaced_by_another(machine, probes, put_rocm, monkeypatch, tmp_path):
    (machine.bin / "hipcc").symlink_to(put_rocm(tmp_path / "rocm"))
    monkeypatch.setenv("ROCM_PATH", "/nowhere")
    with pytest.raises(ToolchainError, match="ROCM_PATH is /nowhere"):
        find_rocm_compiler(probes=probes)


def test_none_at_all(probes):
    with pytest.raises(ToolchainError, match=r"No ROCm compiler was found.*apt-get install hipcc"):
        find_rocm_compiler(probes=probes)


def test_missing_headers(machine, probes):
    machine.put("hipcc", ANSWER)
    with pytest.raises(ToolchainError, match=r"not hip/hip_runtime\.h"):
        find_rocm_compiler(probes=probes)


def test_one_that_tells_no_version(machine, probes):
    machine.put("hipcc", "hello")
    with pytest.raises(ToolchainError, match=r"does not report its version.*\nhello"):
        find_rocm_compiler(probes=probes)
