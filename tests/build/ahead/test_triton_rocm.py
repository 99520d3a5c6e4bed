"""A Triton kernel is compiled for AMD's GPUs, and its launcher asks HIP for the right one; HIP here only records."""

from __future__ import annotations

import ctypes
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import opsmith
from opsmith.build.ahead.archs import triton_rocm_archs
from opsmith.build.ahead.compile_kernels.triton_targets import find_target
from opsmith.build.artifact import obtain_artifact
from opsmith.build.prepare import Prepared, prepare
from opsmith.errors import ToolchainError
from opsmith.package.audit.elf_reader import parse_elf
from opsmith.package.audit.library import describe_library
from opsmith.runtime.define import define
from opsmith.runtime.options import OpOptions
from opsmith.spec.definition import Definition, Group
from opsmith.store import Store
from opsmith.toolchain import find_torch
from opsmith.toolchain.archs import parse_rocm_archs
from opsmith.toolchain.triton import triton_version

sys.path.append(str(Path(__file__).parent))

from launching import Launched, Launcher

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
needs_plain_torch = pytest.mark.skipif(
    torch.version.cuda is not None or torch.version.hip is not None,
    reason="AMD's architectures are asked for, which decides where torch is for no GPU; and HIP's own runtime may be loaded",
)


def needs_recorder(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that compiles with Triton for a HIP that records."""
    return pytest.mark.compile(needs_triton(needs_plain_torch(test)))


_KERNELS = """
import triton
import triton.language as tl


@triton.jit
def rows(x, y, scale, N, x_stride_0, x_stride_1, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * x_stride_0 + columns * x_stride_1, columns < N, 0.0)
    tl.store(y + row * N + columns, values * scale / tl.sum(values, 0), columns < N)


@triton.jit
def copied(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at))
"""
# The architectures with what ELF files of their code have as the machine (LLVM's AMDGPU usage, "ELF Header").
_MACHINES = {"gfx90a": 0x3F, "gfx942": 0x4C, "gfx1100": 0x41}
_EM_AMDGPU = 224
_SYMBOL = "rows__cuda__float32"


@pytest.fixture(scope="module")
def declare(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Definition]:
    """Return a function that declares an operator for float32 with a kernel of `_KERNELS`."""
    file = tmp_path_factory.mktemp("kernels") / "kernels.py"
    file.write_text(_KERNELS)

    def do(function: Callable[..., object], **launch: Any) -> Definition:
        kernel = opsmith.triton(f"{file}:{function.__name__}", **launch)
        return define(function, OpOptions(cuda=kernel, namespace="rocm", outputs="y", dtypes=(torch.float32,)))

    return do


def rows(x: Float[Tensor, "M N"], scale: float) -> Float[Tensor, "M N"]:
    return x * scale / x.sum(1, keepdim=True)


def copied(x: Float[Tensor, "1024"]) -> Float[Tensor, "1024"]:
    return x.clone()


@pytest.fixture(scope="module")
def launcher(declare: Callable[..., Definition], tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    configs = [{"BLOCK": 64, "num_warps": 1, "when": "N <= BLOCK"}, {"BLOCK": 1024, "num_warps": 4}]
    parameters = {_SYMBOL: ["View<const float, 2>", "double", "View<float, 2>"]}
    definition = declare(rows, grid="M", configs=configs)
    return Launcher(definition, tmp_path_factory.mktemp("rows"), parameters, archs=";".join(_MACHINES))


@pytest.fixture
def on_gpu(launcher: Launcher) -> Callable[..., Launched | str]:
    """Return a function that calls `rows` on a GPU of an architecture; each gets a number, so that it loads anew."""
    numbers = {name: index for index, name in enumerate([*_MACHINES, "gfx950", "AMD"])}

    def do(
        arch: str = "gfx90a", *, again: bool = False, shared: int = 65536, arguments: int = 5, **changes: int
    ) -> Launched | str:
        launcher.driver.fake_gpu(numbers[arch], f"{arch}:sramecc+:xnack-".encode(), shared)
        call = launcher.call_again if again else launcher.call
        return call(_SYMBOL, _numbers(**changes), stream=7, arguments=arguments)

    return do


def _numbers(m: int = 5, n: int = 320, stride: int = 640, at: int = 4096) -> list[int]:
    return [at, m, n, stride, 1, 2, 8192, m, n, n, 1]


@needs_recorder
def test_grid_block_arguments_and_stream(on_gpu: Callable[..., Launched]) -> None:
    launched = on_gpu()
    assert launched.grid == (5, 1, 1)
    assert launched.block == (256, 1, 1)
    assert launched.stream == 7
    assert launched.shared_bytes > 0  # for the sum of four warps
    x, y, scale, n, x_stride_0 = launched.arguments
    assert (x, y, n, x_stride_0) == (4096, 8192, 320, 640)
    assert struct.unpack("<f", struct.pack("<Q", scale)[:4]) == (2.0,)
    assert launched.kernel["constants"] == {"BLOCK": 1024, "x_stride_1": 1}
    assert on_gpu(n=64).block == (64, 1, 1)
    # Hardware for graphics has 32 threads in a warp.
    assert on_gpu("gfx1100").block == (128, 1, 1)


@needs_recorder
def test_a_gpu_gets_the_code_object_for_it(on_gpu: Callable[..., Launched]) -> None:
    for arch, machine in _MACHINES.items():
        launched = on_gpu(arch, at=4100, arguments=6)  # a kernel that no other test has loaded
        (data,) = (int(line.split()[1]) for line in launched.records.splitlines() if line.startswith("load "))
        mark, kind, number, is_exact, size = struct.unpack("<8sIIIxxxxQ", ctypes.string_at(data - 32, 32))
        assert (mark, kind, f"gfx{number:x}", is_exact) == (b"OPSMITHK", 3, arch, 1)
        code = ctypes.string_at(data, size)
        assert struct.unpack_from("<H", code, 18) == (_EM_AMDGPU,)
        assert struct.unpack_from("<I", code, 48)[0] & 0xFF == machine
        # A kernel is its code, and a descriptor that a launch reads.
        assert {"rows", "rows.kd"} <= {symbol.name for symbol in parse_elf(code).symbols if symbol.is_defined}


@needs_recorder
def test_a_kernel_is_loaded_once_while_captures_allow_it(on_gpu: Callable[..., Launched]) -> None:
    first = on_gpu("gfx942", n=48)
    assert first.records.startswith("capture 2\n")
    assert first.records.count("capture 0\n") == 1
    second = on_gpu("gfx942", again=True, n=48)
    assert second.records.count("load ") == 1
    assert second.records.count("launch ") == 2


@needs_recorder
@pytest.mark.parametrize(
    ("changes", "multiples", "number", "near"),
    [
        ({}, {"x", "y", "N", "x_stride_0"}, "i32", ["x", "y"]),
        ({"n": 321}, {"x", "y"}, "i32", ["x", "y"]),
        ({"at": 4100}, set(), "i32", ["x", "y"]),
        ({"stride": 1 << 28}, {"x", "y", "N", "x_stride_0"}, "i64", []),  # 4 GB, in offsets of 30 bits
        ({"stride": (1 << 28) + 1}, set(), "i64", []),
    ],
)
def test_specialisation_holds_for_the_call(
    on_gpu: Callable[..., Launched], changes: dict[str, int], multiples: set[str], number: str, near: list[str]
) -> None:
    # Kernels for unit strides do not take them.
    launched = on_gpu(**changes, arguments=5 if multiples else 6)
    assert set(launched.kernel["multiples"]) == multiples
    assert launched.kernel["types"]["N"] == number
    assert launched.kernel["near"] == near


@needs_recorder
def test_errors_have_hip_s_name_and_are_told_once(launcher: Launcher, on_gpu: Callable[..., str]) -> None:
    on_gpu()
    launcher.driver.fake_fail(b"hipModuleLaunchKernel", 1)
    assert on_gpu(again=True) == "rows(): HIP error: as HIP says it (hipErrorInvalidValue) when a kernel was launched"
    assert launcher.driver.fake_stale() == 0
    launcher.driver.fake_clear(7)
    launcher.driver.fake_fail(b"hipModuleLoadData", 209)
    text = on_gpu("gfx942", again=True, stride=1 << 28)
    assert text == "rows(): HIP error: as HIP says it (hipErrorNoBinaryForGpu) when a kernel was loaded"


@needs_recorder
def test_what_no_gpu_can_run(on_gpu: Callable[..., str]) -> None:
    assert on_gpu("gfx950").startswith(
        "rows(): the library has machine code for gfx1100, gfx90a, gfx942, and none for this GPU, gfx950:sramecc+:xnack-"
    )
    assert "none for this GPU, AMD:sramecc+:xnack-" in on_gpu("AMD")
    text = on_gpu("gfx942", shared=8, stride=1 << 28)
    assert re.search(r"the kernel rows needs \d+ bytes of shared memory, and GPU 1 has 8\.", text)
    assert on_gpu(m=0).startswith("rows(): the kernel's grid would be 0 x 1 x 1, so that nothing writes the outputs")
    text = on_gpu(m=1 << 24)
    assert text == (
        "rows(): the kernel's grid would be 16777216 x 1 x 1 blocks of 256 threads, and HIP's has at most 4294967295 "
        "threads along an axis"
    )


@needs_triton
@needs_plain_torch
def test_no_range_is_claimed_where_one_kernel_serves_all_sizes(declare: Callable[..., Definition]) -> None:
    text = _prepared(declare(copied, grid=8, BLOCK=128), "gfx90a").plan.files["copied.triton.json"]
    assert '"near": []' in text
    assert '"near": ["' not in text


@needs_triton
@pytest.mark.compile
def test_the_range_of_pointers_changes_the_code_and_warps_have_64_threads(tmp_path: Path) -> None:
    # In a process of its own: Triton's cache, and its environment, are the process's.
    (tmp_path / "kernels.py").write_text(_KERNELS)
    program = """
import sys
from pathlib import Path
from compile_kernels.triton_compiling import compile_variant
from compile_kernels.triton_produce import _prepare_triton
_prepare_triton(Path("cache"))
from kernels import copied
variant = {"types": {"x": "*fp32", "y": "*fp32", "BLOCK": "constexpr"}, "constants": {"BLOCK": 128},
           "multiples": ["x", "y"], "options": {"num_warps": 2}}
images = [compile_variant(copied, {**variant, "near": near}, "hsaco:gfx90a") for near in ([], ["x", "y"])]
print(*(image.scratch for image in images), images[0].data != images[1].data)
variant |= {"options": {"num_warps": 32}, "near": []}
print(compile_variant(copied, variant, "hsaco:gfx90a").partition("error: ")[2])
"""
    # By default Triton has made no buffer instructions before 3.6.
    changes = (triton_version() or "") >= "3.6"
    path = [str(tmp_path), str(Path(opsmith.__file__).parent / "build/ahead")]
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {path}\n{program}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found, refused = done.stdout.splitlines()
    assert found == f"2 2 {changes}", done.stderr
    assert refused == (
        "32 warps of 64 threads are more than the 1024 threads that a block may have; give it num_warps=16 or less"
    )
    assert find_target("cubin:90").hints({"multiples": [], "near": ["x"]}, "x") == []


@pytest.mark.parametrize(
    ("asked", "made"),
    [("gfx942;gfx90a", "gfx90a;gfx942"), ("gfx90a:xnack-;gfx90a:xnack+;gfx1100", "gfx90a;gfx1100")],
)
def test_triton_s_code_runs_with_every_feature(asked: str, made: str) -> None:
    assert triton_rocm_archs(parse_rocm_archs(asked)) == parse_rocm_archs(made)


def test_architectures_that_stand_for_several_are_refused() -> None:
    with pytest.raises(ToolchainError, match=r"gfx9-4-generic is requested, but Triton compiles for one GPU at a time"):
        triton_rocm_archs(parse_rocm_archs("gfx90a;gfx9-4-generic"))


@needs_plain_torch
def test_other_kernels_that_are_compiled_ahead_are_nvidia_s(tmp_path: Path) -> None:
    (tmp_path / "kernel.cu").write_text("__global__ void copied(const float* x, float* y) {}\n")
    kernel = opsmith.kernel(str(tmp_path / "kernel.cu:copied"), grid=1, block=1)
    definition = define(copied, OpOptions(cuda=kernel, namespace="rocm", outputs="y", dtypes=(torch.float32,)))
    with pytest.raises(
        ToolchainError, match=r"opsmith\.kernel kernels, and those are .* for NVIDIA's GPUs alone\. For"
    ):
        _prepared(definition, "gfx90a")


@needs_triton
@pytest.mark.parametrize(
    ("asked", "variable", "made"),
    [
        (None, None, ("gfx90a",)),
        (None, "gfx942", ("gfx942",)),
        ("gfx1100;gfx942:xnack-", None, ("gfx1100", "gfx942")),
        ("native", None, ("gfx950",)),
    ],
)
def test_a_torch_for_rocm_builds_for_amd_s_gpus(
    declare: Callable[..., Definition],
    monkeypatch: pytest.MonkeyPatch,
    asked: str | None,
    variable: str | None,
    made: tuple[str, ...],
) -> None:
    here = find_torch()
    monkeypatch.setattr("opsmith.toolchain.toolchain.find_torch", lambda: replace(here, cuda=None, hip="6.4"))
    if asked == "native":
        monkeypatch.setattr("opsmith.build.target._native_rocm", lambda: ("gfx950:sramecc+:xnack-",))
    monkeypatch.delenv("PYTORCH_ROCM_ARCH", raising=False)
    if variable is None:
        monkeypatch.delenv("OPSMITH_ROCM_ARCHS", raising=False)
    else:
        monkeypatch.setenv("OPSMITH_ROCM_ARCHS", variable)
    prepared = _prepared(declare(copied, grid=8, BLOCK=128), asked)
    assert prepared.target.archs == made
    assert prepared.toolchain.rocm is None  # no hipcc is asked for
    commands = {step.output: step.argv for step in prepared.plan.steps}
    images = [word for word in commands["copied.triton.json.o"] if word.startswith("hsaco:")]
    assert images == [f"hsaco:{arch}" for arch in made]
    assert all("-DOPSMITH_HIP" in commands[name] for name in ("copied.triton.json.o", "copied.launch.cpp.o"))
    assert not any("hip64" in word for word in commands[prepared.plan.library])


@needs_recorder
def test_a_library_says_which_gpus_it_is_for(declare: Callable[..., Definition], tmp_path: Path) -> None:
    definition = declare(copied, grid=8, BLOCK=128)
    store = Store(tmp_path)
    found = {}
    for archs in ("gfx90a", "gfx90a;gfx942", "gfx90a:xnack+"):
        made = _prepared(definition, archs)
        found[archs] = obtain_artifact(made.plan, made.toolchain, made.target, store)
    assert found["gfx90a"].manifest.sha256 == found["gfx90a:xnack+"].manifest.sha256
    both = found["gfx90a;gfx942"]
    assert both.manifest.archs == ("gfx90a", "gfx942")
    assert both.manifest.toolchain["triton"].startswith("Triton ")
    described = describe_library("_ops.so", both.library.read_bytes())
    assert (described.amd, described.cuda) == (("gfx90a", "gfx942"), ())
    assert not any("hip" in name for name in described.elf.needed)


def _prepared(definition: Definition, archs: str | None) -> Prepared:
    return prepare(Group(definition.module, definition.file, (definition,)), ("cuda",), archs=archs, strict=True)
