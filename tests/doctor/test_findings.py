"""What the doctor says is a pure function of the facts: no machine is asked here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from opsmith.doctor.bridge import judge_bridge
from opsmith.doctor.cache import CacheState, judge_cache
from opsmith.doctor.compilers import BuildTools, judge_build_tools
from opsmith.doctor.cuda import CudaState, judge_cuda
from opsmith.doctor.finding import Finding, problem
from opsmith.doctor.gpu import GpuState, judge_gpus
from opsmith.doctor.memory import MemoryState, judge_memory
from opsmith.doctor.rocm import RocmState, judge_rocm
from opsmith.doctor.torch_state import Gpu, TorchState, judge_torch
from opsmith.errors import ToolchainError
from opsmith.toolchain import CudaCompiler, HostCompiler

GIB = 1 << 30
HOST = HostCompiler(Path("/bin/g++"), "gcc", "12.2.0", "x86_64-linux-gnu", "gcc version 12.2.0")
NVCC = CudaCompiler(
    Path("/cuda/bin/nvcc"),
    Path("/cuda"),
    "13.0.88",
    "b",
    Path("/cuda/include"),
    HOST,
    ("7.5", "9.0"),
    Path("/cudart.a"),
)
CPU = TorchState("2.13.0+cpu", cxx11_abi=True)
CUDA = TorchState("2.13.0", cuda="13.0", cxx11_abi=True)
TOOLS = BuildTools(HOST, "/bin/ninja", "1.13", "/usr/include/python3.11", None)
FOUND = CudaState(NVCC, None, "PATH", "13.0")
CACHE = CacheState(Path("/c"), Path("/c"), 2_000_000, 5_000_000_000, None, 3, 60.0, 10**12, None)


def only(findings: tuple[Finding, ...], *, without_ok: bool = False) -> Finding:
    chosen = [finding for finding in findings if not (without_ok and finding.status == "ok")]
    assert len(chosen) == 1, findings
    return chosen[0]


def test_what_is_wrong_must_have_a_remedy():
    with pytest.raises(ValueError, match="not how to fix it"):
        problem("torch", "torch is gone", "", "")


def test_a_machine_that_has_everything():
    findings = (*judge_torch(CUDA), *judge_build_tools(TOOLS), *judge_cuda(FOUND, CUDA), *judge_cache(CACHE))
    assert {finding.status for finding in findings} == {"ok"}
    titles = [finding.title for finding in findings]
    assert titles[:4] == ["torch 2.13.0 (CUDA 13.0)", "g++ 12.2.0", "ninja 1.13", f"Python.h {_python()}"]
    assert "nvcc 13.0.88 (PATH)" in titles
    assert "cache 2.0 MB of 5.0 GB" in titles


def _python() -> str:
    import sys

    return f"{sys.version_info.major}.{sys.version_info.minor}"


def test_a_torch_that_is_missing_and_one_that_does_not_start():
    missing = only(judge_torch(TorchState(missing="This Python has no torch.")))
    assert (missing.status, missing.remedy) == ("problem", "pip install --upgrade torch")
    words = "libcudart.so.12: cannot open shared object file"
    broken = only(judge_torch(replace(CUDA, version="2.13.0+cu130", broken=words)))
    assert broken.status == "problem"
    assert "built against libcudart.so.12" in broken.detail
    assert broken.remedy == "pip install --force-reinstall torch==2.13.0"


def test_missing_tools():
    tools = replace(
        TOOLS, host="No C++ compiler was found", ninja=ToolchainError("no"), python_headers=ToolchainError("no")
    )
    host, ninja, headers = judge_build_tools(tools)
    assert (host.status, ninja.status, headers.status) == ("problem", "warning", "warning")
    assert host.remedy.startswith("apt-get install g++")
    assert headers.remedy == f"apt-get install python{_python()}-dev"
    assert judge_build_tools(replace(tools, cxx="nowhere"))[0].remedy == "unset CXX"


def test_no_nvcc_is_a_problem_only_where_torch_has_cuda():
    absent = CudaState(None, "No CUDA compiler was found: ...", None, None)
    here = only(judge_cuda(absent, CPU))
    assert (here.status, here.remedy) == ("warning", 'pip install "opsmith[cuda]"')
    assert "torch is a CPU build" in here.detail
    there = only(judge_cuda(absent, CUDA))
    assert (there.status, there.remedy) == ("problem", "pip install 'opsmith[cuda]' 'cuda-toolkit==13.0.*'")
    older = only(judge_cuda(absent, replace(CUDA, cuda="12.8")))
    assert older.remedy.startswith("conda install -c nvidia cuda-nvcc=12.8")
    assert judge_cuda(absent, replace(CPU, hip="6.3")) == ()


def test_a_wrong_cuda_home_is_a_problem_anywhere():
    state = CudaState(None, "CUDA_HOME is /opt/none, but ...", None, None, ("/usr/local/cuda/bin/nvcc",))
    assert only(judge_cuda(state, CPU)).status == "problem"
    assert only(judge_cuda(state, CPU)).remedy == "unset CUDA_HOME"


def test_another_major_version_of_cuda_is_a_problem_and_a_minor_one_is_none():
    assert only(judge_cuda(FOUND, replace(CUDA, cuda="13.2"))).status == "ok"
    wrong = only(judge_cuda(FOUND, replace(CUDA, cuda="12.8")))
    assert wrong.status == "problem"
    assert "built for CUDA 12.8" in wrong.detail
    assert only(judge_cuda(FOUND, CPU)).status == "ok"


def test_parts_of_a_toolkit_that_do_not_belong_together():
    newer = replace(FOUND, compiler=replace(NVCC, version="13.5.37"))
    mixed = only(judge_cuda(newer, CUDA), without_ok=True)
    assert mixed.title == "CUDA headers 13.0 with nvcc 13.5.37"
    assert mixed.remedy == "pip install 'opsmith[cuda]' 'cuda-toolkit==13.0.*'"
    no_library = only(judge_cuda(replace(FOUND, compiler=replace(NVCC, cudart=None)), CUDA), without_ok=True)
    assert "no libcudart" in no_library.title


def test_gpus():
    gpu = Gpu("NVIDIA H200", "9.0", 150 * GIB)
    driver = GpuState(("NVIDIA H200",), "580.1", "13.0")
    assert judge_gpus(GpuState(), CPU) == ()
    assert only(judge_gpus(driver, replace(CUDA, gpus=(gpu, gpu)))).title == "2 x NVIDIA H200 (9.0)"
    assert only(judge_gpus(driver, CPU)).status == "warning"
    unseen = only(judge_gpus(driver, CUDA))
    assert unseen.status == "problem"
    assert "not visible to torch" in unseen.title
    old = only(judge_gpus(replace(driver, driver_cuda="12.4"), replace(CUDA, gpus=(gpu,), gpu_error="driver too old")))
    assert "--index-url https://download.pytorch.org/whl/cu124" in old.remedy
    hung = only(judge_gpus(GpuState(failure="nvidia-smi did not finish within 20 s"), CPU))
    assert hung.status == "problem"


def test_rocm_is_spoken_of_where_it_is_or_should_be():
    absent = RocmState(None, "No ROCm compiler was found")
    assert judge_rocm(absent, CPU) == ()
    assert only(judge_rocm(absent, replace(CPU, hip="6.3"))).status == "problem"


def test_the_bridge(monkeypatch):
    monkeypatch.delenv("OPSMITH_BRIDGE", raising=False)
    assert only(judge_bridge(replace(CPU, bridge="/c/bridge.so"))).status == "ok"
    assert only(judge_bridge(CPU)).remedy == "opsmith bridge"
    assert "no memory" in only(judge_bridge(replace(CPU, bridge_failure="no memory"))).detail
    assert judge_bridge(replace(CPU, broken="it crashes")) == ()
    misfit, unbuilt = judge_bridge(replace(CPU, bridge_misfit="opsmith-bridge has none for torch 2.99"))
    assert (misfit.remedy, unbuilt.remedy) == ("pip install --upgrade opsmith-bridge", "opsmith bridge")


@pytest.mark.parametrize(
    ("change", "status", "title"),
    [
        ({"size_bytes": 4_900_000_000}, "warning", "cache: 4.9 GB of 5.0 GB; the oldest are removed next"),
        ({"free_bytes": 10_000_000}, "warning", "disk of the cache: 10.0 MB free"),
        ({"danger": "everybody may write to it"}, "problem", "cache: others can write to it"),
        ({"root": Path("/tmp/opsmith-0")}, "warning", "cache: cannot be written"),
        ({"limit_error": "OPSMITH_CACHE_SIZE is 'big'"}, "problem", "cache: invalid size"),
    ],
)
def test_a_cache_that_needs_attention(change, status, title):
    found = only(judge_cache(replace(CACHE, **change)), without_ok=True)
    assert (found.status, found.title) == (status, title)


def test_memory_for_fewer_compilers_than_cores():
    enough = only(judge_memory(MemoryState(4, 32 * GIB)))
    assert (enough.status, enough.detail) == ("ok", "enough for a compiler on each core")
    assert only(judge_memory(MemoryState(4, None))).title == "4 cores"
    few = only(judge_memory(MemoryState(64, 8 * GIB)))
    assert (few.status, few.remedy) == ("warning", "export MAX_JOBS=3")
    assert only(judge_memory(MemoryState(1, GIB))).remedy == "export MAX_JOBS=1"
