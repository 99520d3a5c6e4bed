"""CUDA kernels that NVRTC compiled run on a GPU, compute what their definitions say, and pass the check."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import torch

import opsmith
import softmax_rows
from forks import python_c
from opsmith.errors import ToolchainError
from opsmith.toolchain import find_nvrtc

EXAMPLES = Path(__file__).parents[2] / "examples" / "without_nvcc"


def _has_nvrtc() -> bool:
    try:
        find_nvrtc(fit=torch.version.cuda)
    except ToolchainError:
        return False
    return True


pytestmark = [
    pytest.mark.gpu,
    pytest.mark.compile,
    pytest.mark.skipif(torch.version.hip is not None, reason="NVRTC compiles for NVIDIA's GPUs alone"),
    pytest.mark.skipif(not _has_nvrtc(), reason="NVRTC is not installed"),
]

_MODULE = '''
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith


@opsmith.op(
    cuda=opsmith.kernel("kernels.cu:turned", grid="M", block=256, shared="4 * N"), outputs="y", dtypes=(torch.float32,)
)
def turned(x: Float[Tensor, "M N"]) -> Float[Tensor, "M N"]:
    """Each row from its end."""
    return x.flip(1)


@opsmith.op(cuda=opsmith.kernel("kernels.cu:picked", grid="cdiv(n, 256)", block=256), outputs="y")
def picked(
    x: Float[Tensor, "*n"], bias: Float[Tensor, "*n"] | None, power: Literal[1, 2], is_negative: bool, is_twice: bool
) -> Float[Tensor, "*n"]:
    """A power of x, and more."""
    y = x**power
    y = y if bias is None else y + bias
    y = -y if is_negative else y
    return 2 * y if is_twice else y


@opsmith.op(cuda=opsmith.kernel("kernels.cu:rolled", grid="cdiv(B*N, 64)", block="16, 4"), outputs="y")
def rolled(x: Float[Tensor, "B N"], step: int) -> Float[Tensor, "B N"]:
    """Each row, `step` elements further."""
    return x.roll(-step, 1)


@opsmith.op(cuda=opsmith.kernel("kernels.cu:doubled", grid="cdiv(N, 256)", block=256), mutates="x")
def doubled(x: Float[Tensor, "N"]) -> None:
    """Doubles x in place."""
    x.mul_(2)
'''
_KERNELS = """
#include <cstdint>
#include <opsmith/types.h>

using namespace opsmith;

extern __shared__ float row[];

template <class T>
__global__ void turned(const T* x, T* y, int N, int64_t x_stride_0, int64_t x_stride_1) {
  for (int at = threadIdx.x; at < N; at += blockDim.x) row[at] = x[blockIdx.x * x_stride_0 + at * x_stride_1];
  __syncthreads();
  for (int at = threadIdx.x; at < N; at += blockDim.x) y[int64_t(blockIdx.x) * N + at] = T(row[N - 1 - at]);
}

template <class T, int power, bool is_negative>
__global__ void picked(const T* x, const T* bias, bool is_twice, T* y, int64_t n) {
  const int64_t at = int64_t(blockIdx.x) * 256 + threadIdx.x;
  if (at >= n) return;
  compute_t<T> value = x[at];
  if constexpr (power == 2) value *= value;
  if (bias != nullptr) value += bias[at];
  y[at] = T((is_negative ? -value : value) * (is_twice ? 2 : 1));
}

template <class T, class Index>
__global__ void rolled(const T* x, int64_t step, T* y, Index B, Index N, Index x_stride_0, Index x_stride_1) {
  const Index at = Index(blockIdx.x) * 64 + threadIdx.y * 16 + threadIdx.x;
  if (at >= B * N) return;
  const Index row = at / N, from = Index(((step % N + at % N) % N + N) % N);
  y[at] = x[row * x_stride_0 + from * x_stride_1];
}

template <class T>
__global__ void doubled(T* x, int64_t N) {
  const int64_t at = int64_t(blockIdx.x) * 256 + threadIdx.x;
  if (at < N) x[at] = T(2 * compute_t<T>(x[at]));
}
"""


@pytest.fixture(scope="module")
def rows() -> Iterator[ModuleType]:
    sys.path.insert(0, str(EXAMPLES))
    yield import_module("rows_cuda")
    sys.path.remove(str(EXAMPLES))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder = tmp_path_factory.mktemp("small")
    (folder / "small_cuda_kernels.py").write_text(_MODULE)
    (folder / "kernels.cu").write_text(_KERNELS)
    sys.path.insert(0, str(folder))
    yield import_module("small_cuda_kernels")
    sys.path.remove(str(folder))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("columns", [1, 17, 256, 1000, 4096, 20_000])
def test_rows_of_every_configuration(rows: ModuleType, dtype: torch.dtype, columns: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(33, columns, device="cuda", dtype=dtype)
    exact = torch.softmax(x.double() * 0.5, 1)
    rtol = 2e-2 if dtype in (torch.float16, torch.bfloat16) else 1e-4
    torch.testing.assert_close(rows.softmax(x, 0.5).double(), exact, rtol=rtol, atol=1e-6)


def test_strides_offsets_and_empty_tensors(rows: ModuleType) -> None:
    base = torch.randn(64, 515, device="cuda")
    for x in (
        base[:, 3:],  # rows that begin anywhere
        base[:, ::2],  # copied: the kernel does not take the last stride
        base[::3, :512],
        base.t(),
        base.expand(2, 64, 515)[1],
        base[:0],
        base[:, :0],
        base[:1, :1],
    ):
        torch.testing.assert_close(rows.softmax(x), torch.softmax(x, 1), rtol=1e-5, atol=1e-6)


@pytest.mark.whole_gpu
def test_offsets_beyond_32_bits(rows: ModuleType) -> None:
    softmax_rows.with_offsets_beyond_32_bits(rows.softmax)


def test_threads_streams_and_graphs(rows: ModuleType) -> None:
    softmax_rows.on_threads_and_streams(rows.softmax)
    softmax_rows.captured_in_a_graph(rows.softmax)


def test_gradients_and_compile(rows: ModuleType) -> None:
    softmax_rows.differentiated_and_compiled(rows.softmax)


@pytest.mark.parametrize("columns", [100, 12_288, 20_000])
def test_shared_memory_of_the_launch(small: ModuleType, columns: int) -> None:
    x = torch.randn(3, columns, device="cuda")
    torch.testing.assert_close(small.turned(x), x.flip(1), rtol=0, atol=0)
    torch.testing.assert_close(small.turned(x.t()[:200].t()), x[:, :200].flip(1), rtol=0, atol=0)


def test_shared_memory_in_a_graph(small: ModuleType) -> None:
    graph, x = torch.cuda.CUDAGraph(), torch.randn(3, 15_000, device="cuda")
    with torch.cuda.graph(graph):
        y = small.turned(x)
    x.normal_()
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(y, x.flip(1), rtol=0, atol=0)


def test_more_shared_memory_than_the_gpu_has_is_refused(small: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="asks for 4000000 bytes of dynamic shared memory"):
        small.turned(torch.randn(1, 1_000_000, device="cuda"))


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("is_negative", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
def test_choices_flags_and_optional_tensors(small: ModuleType, power: int, is_negative: bool, has_bias: bool) -> None:
    x, bias = torch.randn(7, 100, device="cuda"), torch.randn(7, 100, device="cuda")
    for is_twice in (False, True):
        arguments = (x, bias if has_bias else None, power, is_negative, is_twice)
        torch.testing.assert_close(small.picked(*arguments), small.picked.reference(*arguments))


def test_blocks_of_two_axes_and_tensors_that_are_written(small: ModuleType) -> None:
    x = torch.randn(5, 301, device="cuda")
    for step in (0, 3, -5, 1 << 40):
        torch.testing.assert_close(small.rolled(x, step), x.roll(-step, 1), rtol=0, atol=0)
    expected = 2 * x[:, ::3]
    y = x[1, ::3]
    small.doubled(y)
    torch.testing.assert_close(x[1, ::3], expected[1], rtol=0, atol=0)


@pytest.mark.slow("checks operators")
@pytest.mark.parametrize("name", ["softmax", "picked", "rolled", "doubled"])
def test_the_check_finds_nothing(rows: ModuleType, small: ModuleType, name: str) -> None:
    operator = getattr(rows if name == "softmax" else small, name)
    opsmith.check(operator, devices="cuda", seconds=60).raise_if_failed()


_ALONE = """
import opsmith.toolchain.nvrtc as nvrtc

nvrtc._choose = lambda fit: None  # as if there were none
import torch
from rows_cuda import softmax

x = torch.randn(5, 100, device="cuda")
torch.testing.assert_close(softmax(x), torch.softmax(x, 1), rtol=1e-5, atol=1e-6)
print("ran")
"""


def test_a_library_built_before_runs_without_nvrtc(tmp_path: Path) -> None:
    import shutil
    import subprocess

    package = Path(shutil.copytree(EXAMPLES / "rows_cuda", tmp_path / "rows_cuda"))
    major, minor = torch.cuda.get_device_capability()
    command = [sys.executable, "-m", "opsmith", "build", "rows_cuda", "--arch", f"{major}.{minor}"]
    subprocess.run([*command, "--output", str(package)], cwd=tmp_path, check=True)
    empty = {"OPSMITH_CACHE_DIR": str(tmp_path / "store"), "CXX": "/nonexistent", "OPSMITH_BRIDGE": "off"}
    done = python_c(_ALONE, cwd=tmp_path, env={**os.environ, **empty})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "ran"
