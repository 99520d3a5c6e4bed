"""Kernels in CuTe DSL run on a GPU, compute what their definitions say, and pass the check."""

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
from opsmith.toolchain import find_cute

EXAMPLES = Path(__file__).parents[2] / "examples" / "cute"


def _has_cute() -> bool:
    try:
        find_cute()
    except ToolchainError:
        return False
    return True


pytestmark = [
    pytest.mark.gpu,
    pytest.mark.compile,
    pytest.mark.skipif(torch.version.hip is not None, reason="CuTe DSL compiles for NVIDIA's GPUs alone"),
    pytest.mark.skipif(not _has_cute(), reason="CuTe DSL (nvidia-cutlass-dsl) is not installed"),
]

_MODULE = '''
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith


@opsmith.op(cuda=opsmith.cute("cute_kernels_of_tests.py:turned"), outputs="y", dtypes=(torch.float32,))
def turned(x: Float[Tensor, "M N"]) -> Float[Tensor, "M N"]:
    """Each row from its end."""
    return x.flip(1)


@opsmith.op(
    cuda=opsmith.cute("cute_kernels_of_tests.py:picked"), outputs="y", dtypes=(torch.float32, torch.bfloat16)
)
def picked(
    x: Float[Tensor, "*n"], bias: Float[Tensor, "*n"] | None, k: int, sign: Literal["plus", "minus"], is_twice: bool
) -> Float[Tensor, "*n"]:
    """x and more."""
    y = x if bias is None else x + bias
    y = y + k if sign == "plus" else y - k
    return 2 * y if is_twice else y


@opsmith.op(cuda=opsmith.cute("cute_kernels_of_tests.py:doubled"), mutates="x", dtypes=(torch.float32,))
def doubled(x: Float[Tensor, "N"]) -> None:
    """Doubles x in place."""
    x.mul_(2)
'''
_KERNELS = """
from typing import Optional

import cuda.bindings.driver as cuda
import cutlass
from cutlass import cute

THREADS = 128


@cute.kernel
def turned_kernel(x: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    held = cute.make_tensor(
        cute.arch.get_dyn_smem(cutlass.Float32, alignment=16), cute.make_layout(x.shape[1])
    )
    for at in cutlass.range(thread, x.shape[1], THREADS):
        held[at] = x[row, at]
    cute.arch.barrier()
    for at in cutlass.range(thread, x.shape[1], THREADS):
        y[row, at] = held[x.shape[1] - 1 - at]


@cute.jit
def turned(x: cute.Tensor, y: cute.Tensor, N: cutlass.Int32, stream: cuda.CUstream):
    turned_kernel(x, y).launch(grid=[x.shape[0], 1, 1], block=[THREADS, 1, 1], smem=4 * N, stream=stream)


@cute.kernel
def picked_kernel(
    x: cute.Tensor, bias: Optional[cute.Tensor], y: cute.Tensor, k: cutlass.Int64, is_twice: cutlass.Boolean,
    sign: cutlass.Constexpr,
):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    at = block * THREADS + thread
    if at < cute.size(x):
        value = x[at].to(cutlass.Float32)
        if cutlass.const_expr(bias is not None):
            value += bias[at].to(cutlass.Float32)
        if cutlass.const_expr(sign == "plus"):
            value += k
        else:
            value -= k
        if is_twice:
            value *= 2.0
        y[at] = value.to(y.element_type)


@cute.jit
def picked(
    x: cute.Tensor, bias: Optional[cute.Tensor], y: cute.Tensor, k: cutlass.Int64, sign: cutlass.Constexpr,
    is_twice: cutlass.Boolean, stream: cuda.CUstream,
):
    picked_kernel(x, bias, y, k, is_twice, sign).launch(
        grid=[cute.ceil_div(cute.size(x), THREADS), 1, 1], block=[THREADS, 1, 1], stream=stream
    )


@cute.kernel
def doubled_kernel(x: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    at = block * THREADS + thread
    if at < cute.size(x):
        x[at] = x[at] * 2.0


@cute.jit
def doubled(x: cute.Tensor, stream: cuda.CUstream):
    doubled_kernel(x).launch(grid=[cute.ceil_div(cute.size(x), THREADS), 1, 1], block=[THREADS, 1, 1], stream=stream)
"""


@pytest.fixture(scope="module")
def rows() -> Iterator[ModuleType]:
    sys.path.insert(0, str(EXAMPLES))
    yield import_module("rows_cute")
    sys.path.remove(str(EXAMPLES))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder = tmp_path_factory.mktemp("small")
    (folder / "small_cute_kernels.py").write_text(_MODULE)
    (folder / "cute_kernels_of_tests.py").write_text(_KERNELS)
    sys.path.insert(0, str(folder))
    yield import_module("small_cute_kernels")
    sys.path.remove(str(folder))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1,), (4,), (33, 17), (8, 1000), (3, 5, 4096)])
def test_both_configurations_of_a_scale(rows: ModuleType, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, device="cuda", dtype=dtype)
    torch.testing.assert_close(rows.scale(x, 2.5), x * 2.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("columns", [1, 17, 256, 1000, 20_000])
def test_softmax_of_rows(rows: ModuleType, dtype: torch.dtype, columns: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(33, columns, device="cuda", dtype=dtype)
    exact = torch.softmax(x.double() * 0.5, 1)
    rtol = 1e-4 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(rows.softmax(x, 0.5).double(), exact, rtol=rtol, atol=1e-6)


def test_strides_offsets_and_empty_tensors(rows: ModuleType) -> None:
    base = torch.randn(64, 515, device="cuda")
    for x in (
        base[:, 3:],  # begins at no multiple of 16 bytes: copied
        base[:, 4:],  # its rows do not, which the kernel does not rely on
        base[:, ::2],  # copied, because the last stride is not 1
        base[::3, :512],
        base.t(),
        base.expand(2, 64, 515)[1],
        base[:1].expand(64, 515),
        base[:0],
        base[:, :0],
        base[:1, :1],
    ):
        torch.testing.assert_close(rows.softmax(x), torch.softmax(x, 1), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(rows.scale(x, 3.0), x * 3.0)
    images = torch.randn(2, 8, 6, 5, device="cuda").contiguous(memory_format=torch.channels_last)
    assert rows.scale(images, 3.0).is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(rows.scale(images, 3.0), images * 3.0)
    flat = torch.randn(1001, device="cuda")[1:]
    torch.testing.assert_close(rows.scale(flat, 3.0), flat * 3.0)


@pytest.mark.whole_gpu
def test_offsets_beyond_32_bits(rows: ModuleType) -> None:
    softmax_rows.with_offsets_beyond_32_bits(rows.softmax)


def test_threads_and_streams(rows: ModuleType) -> None:
    softmax_rows.on_threads_and_streams(rows.softmax)


def test_a_kernel_that_is_loaded_while_a_graph_is_captured(small: ModuleType) -> None:
    x = torch.randn(500, device="cuda")
    small.picked.load()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = small.picked(x, None, 3, "plus", False)
    x.normal_()
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(y, x + 3)


def test_gradients_and_compile(rows: ModuleType) -> None:
    x = torch.randn(9, 700, device="cuda", requires_grad=True)
    g = torch.randn(9, 700, device="cuda")
    (expected,) = torch.autograd.grad(torch.softmax(0.5 * x, 1) * 3, x, g)
    (found,) = torch.autograd.grad(rows.scale(rows.softmax(x, 0.5), 3.0), x, g)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    compiled = torch.compile(lambda x: rows.softmax(x, 0.5) * 2, fullgraph=True)
    torch.testing.assert_close(compiled(x), 2 * torch.softmax(0.5 * x, 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("columns", [100, 12_288, 20_000])
def test_dynamic_shared_memory(small: ModuleType, columns: int) -> None:
    x = torch.randn(3, columns, device="cuda")
    torch.testing.assert_close(small.turned(x), x.flip(1), rtol=0, atol=0)


def test_more_shared_memory_than_the_gpu_has_is_refused(small: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="shared memory exceeds current GPU arch"):
        small.turned(torch.randn(1, 1_000_000, device="cuda"))
    assert capfd.readouterr().out == ""
    x = torch.randn(3, 100, device="cuda")
    torch.testing.assert_close(small.turned(x), x.flip(1), rtol=0, atol=0)


@pytest.mark.parametrize("sign", ["plus", "minus"])
@pytest.mark.parametrize("has_bias", [False, True])
def test_choices_flags_and_optional_tensors(small: ModuleType, sign: str, has_bias: bool) -> None:
    x, bias = torch.randn(7, 100, device="cuda"), torch.randn(7, 100, device="cuda")
    for is_twice in (False, True):
        arguments = (x, bias if has_bias else None, 3, sign, is_twice)
        torch.testing.assert_close(small.picked(*arguments), small.picked.reference(*arguments))


def test_tensors_that_are_written(small: ModuleType) -> None:
    x = torch.randn(5, 301, device="cuda")
    expected = x.clone()
    for y, twin in ((x[1, ::3], expected[1, ::3]), (x[2, 3:], expected[2, 3:])):  # both are copied, there and back
        small.doubled(y)
        twin.mul_(2)
    torch.testing.assert_close(x, expected, rtol=0, atol=0)


@pytest.mark.slow("checks operators")
@pytest.mark.parametrize("name", ["softmax", "scale", "turned", "picked", "doubled"])
def test_the_check_finds_nothing(rows: ModuleType, small: ModuleType, name: str) -> None:
    operator = getattr(rows if name in ("softmax", "scale") else small, name)
    opsmith.check(operator, devices="cuda", seconds=60).raise_if_failed()


_ALONE = """
import sys

sys.modules["cutlass"] = None  # as if there were none
import torch
from rows_cute import softmax

x = torch.randn(5, 100, device="cuda")
torch.testing.assert_close(softmax(x), torch.softmax(x, 1), rtol=1e-5, atol=1e-6)
maps = open("/proc/self/maps").read()
assert "cute_dsl" not in maps and "cutlass" not in maps
print("ran")
"""


def test_a_library_built_before_loads_nothing_of_cute(rows: ModuleType) -> None:
    rows.softmax.load()
    done = python_c(_ALONE, cwd=EXAMPLES, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["ran"]
