"""A toolchain holds what was asked for, and says whether nvcc and torch fit."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from opsmith.errors import ToolchainError
from opsmith.toolchain import CudaCompiler, HostCompiler, RocmCompiler, Toolchain, TorchInstall, find_toolchain

HOST = HostCompiler(Path("/bin/g++"), "gcc", "12.2.0", "x86_64-linux-gnu", "gcc version 12.2.0 (Debian 12.2.0-14)")
TORCH = TorchInstall(Path("/torch"), "2.13.0", "13.0", None, "cf30153", (), Path("/torch/lib"))
CUDA = CudaCompiler(Path("/cuda/bin/nvcc"), Path("/cuda"), "13.2.1", "b", Path("/cuda/include"), HOST, ("9.0",), None)
ROCM = RocmCompiler(Path("/rocm/bin/hipcc"), Path("/rocm"), "6.3", "AMD clang", "x86_64", Path("/rocm/include"))


def test_each_compiler_has_its_identity():
    assert Toolchain(HOST, TORCH).compilers == {"host": HOST.identity}
    assert Toolchain(HOST, TORCH, CUDA, ROCM).compilers == {
        "host": HOST.identity,
        "cuda": CUDA.identity,
        "rocm": ROCM.identity,
    }


@pytest.mark.parametrize(
    ("torch_cuda", "cuda", "fits"),
    [
        ("13.0", "13.2.1", True),
        ("13.2", "13.0.88", True),
        (None, "13.0.88", True),
        ("12.8", "13.0.88", False),
        ("13.0", "12.8.93", False),
    ],
)
def test_a_cuda_of_another_major_version_does_not_fit(torch_cuda, cuda, fits):
    toolchain = Toolchain(HOST, replace(TORCH, cuda=torch_cuda), replace(CUDA, version=cuda))
    assert (toolchain.cuda_mismatch is None) == fits


def test_the_mismatch_names_both_and_the_remedy():
    toolchain = Toolchain(HOST, replace(TORCH, cuda="12.8"), CUDA)
    assert toolchain.cuda_mismatch == (
        "torch 2.13.0 is built for CUDA 12.8, but nvcc is 13.2.1 (/cuda/bin/nvcc). Install a matching toolkit with "
        "`conda install -c nvidia cuda-nvcc=12.8 cuda-cudart-dev=12.8 cuda-cccl=12.8`, set CUDA_HOME to one of CUDA 12, or "
        "install a torch for CUDA 13. OPSMITH_SKIP_CUDA_CHECK=1 builds anyway."
    )


def test_without_cuda_nothing_can_mismatch():
    assert Toolchain(HOST, TORCH).cuda_mismatch is None


def test_what_is_not_asked_for_is_not_looked_for(machine, probes, monkeypatch):
    pytest.importorskip("torch")
    machine.put_gcc()
    machine.put("nvcc", status=1)
    machine.put("hipcc", status=1)
    toolchain = find_toolchain(cuda=False, rocm=False, probes=probes)
    assert (toolchain.cuda, toolchain.rocm) == (None, None)
    assert machine.started == ["g++ -v"]
    monkeypatch.setenv("CUDA_HOME", str(machine.bin.parent))  # another toolkit on this machine is not taken for it
    with pytest.raises(ToolchainError, match="nvcc"):
        find_toolchain(cuda=True, rocm=False, probes=probes)


def test_importing_does_nothing_but_import():
    code = (
        "import os, sys; before = dict(os.environ); import opsmith.toolchain, opsmith.store;"
        "heavy = {'torch', 'filelock', 'platformdirs', 'ninja', 'setuptools', 'numpy'} & set(sys.modules);"
        "assert not heavy, heavy; assert before == dict(os.environ)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(filter(None, sys.path))})


@pytest.mark.compile
def test_this_machines_compiler_is_understood(tmp_path):
    from opsmith.toolchain import ProbeCache, find_host_compiler

    host = find_host_compiler(probes=ProbeCache(tmp_path / "probes.json"))
    source = tmp_path / "a.cpp"
    source.write_text("int main() {}\n")
    subprocess.run([*host.command, "-fsyntax-only", source], check=True)
