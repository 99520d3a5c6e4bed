"""A CUDA kernel's launcher asks the driver for the right kernel, grid, block and arguments; the driver here only records."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import opsmith
from opsmith.runtime.define import define
from opsmith.runtime.options import OpOptions
from opsmith.spec.definition import Definition

sys.path.append(str(Path(__file__).parent))

from launching import Launched, Launcher
from nvrtc_here import needs_nvrtc

pytestmark = [
    pytest.mark.compile,
    needs_nvrtc,
    pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="CUDA's own driver may be loaded here already"),
]

_KERNELS = """
#include <opsmith/types.h>

using namespace opsmith;

template <class T, class Index, int BLOCK>
__global__ void rows(const T* x, T* y, compute_t<T> scale, Index N, Index M, Index x_stride_0, Index x_stride_1) {
  y[blockIdx.x * N + threadIdx.x] = T(compute_t<T>(x[blockIdx.x * x_stride_0 + threadIdx.x * x_stride_1]) * scale * M);
}

namespace inner {
__global__ void copied(const float* x, float* y, int n, unsigned k, size_t w) { y[n + k] = x[w]; }
}  // namespace inner

template <int mode, bool is_last, class T>
__global__ void shifted(const T* x, const T* __restrict__ bias, T* __restrict__ y, int n, bool is_twice, float f) {
  y[0] = x[0] + (bias != nullptr ? bias[0] : T(mode)) * (is_last ? 1 : n) + (is_twice ? f : 0);
}
"""


@pytest.fixture(scope="module")
def defined(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Definition]:
    """Return a function that declares an operator whose kernels are in a file of its own folder."""
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "kernels.cu").write_text(_KERNELS)

    def declare(function: Callable[..., object], kernel: str, **launch: object) -> Definition:
        options = {name: launch.pop(name) for name in ("dtypes",) if name in launch}
        found = opsmith.kernel(str(folder / f"kernels.cu:{kernel}"), **launch)  # type: ignore[arg-type]
        return define(function, OpOptions(cuda=found, outputs="y", namespace="launching_cuda", **options))  # type: ignore[arg-type]

    return declare


def rows(x: Float[Tensor, "M N"], scale: float) -> Float[Tensor, "M N"]:
    return x * scale


@pytest.fixture(scope="module")
def rows_launcher(defined: Callable[..., Definition], tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    definition = defined(
        rows,
        "rows",
        grid="M, cdiv(N, BLOCK)",
        block="BLOCK // 4, 4",
        shared="128 * M",
        configs=[{"BLOCK": 64, "when": "N <= 64"}, {"BLOCK": 128, "when": "N != 77"}],
        dtypes=(torch.float32, torch.float64, torch.bfloat16),
    )
    parameters = {
        f"rows__cuda__{name}": [f"View<const {kind}, 2>", "double", f"View<{kind}, 2>"]
        for name, kind in (("float32", "float"), ("float64", "double"), ("bfloat16", "bfloat16"))
    }
    return Launcher(definition, tmp_path_factory.mktemp("rows"), parameters, archs="8.0;9.0a+PTX")


def _numbers(m: int = 5, n: int = 160, stride: int = 320, inner: int = 1) -> list[int]:
    return [4096, m, n, stride, inner, 2, 8192, m, n, n, 1]


def _call(launcher: Launcher, dtype: str = "float32", **changes: int) -> Launched:
    launched = launcher.call(f"rows__cuda__{dtype}", _numbers(**changes), stream=7, arguments=7)
    assert isinstance(launched, Launched), launched
    return launched


def test_grid_block_arguments_and_stream(rows_launcher: Launcher) -> None:
    launched = _call(rows_launcher)
    assert (launched.grid, launched.block, launched.shared_bytes, launched.stream) == ((5, 2, 1), (32, 4, 1), 640, 7)
    x, y, scale, n, m, x_stride_0, x_stride_1 = launched.arguments
    assert (x, y, n, m, x_stride_0, x_stride_1) == (4096, 8192, 160, 5, 320, 1)
    assert struct.unpack("<f", struct.pack("<Q", scale)[:4]) == (2.0,)
    assert launched.kernel["name"] == "::rows<float, int32_t, 128>"
    assert launched.records.count("set_function") == 0


@pytest.mark.parametrize(("dtype", "kind", "pack"), [("float64", "double", "<d"), ("bfloat16", "bfloat16", "<f")])
def test_a_number_is_what_the_element_type_is_computed_in(
    rows_launcher: Launcher, dtype: str, kind: str, pack: str
) -> None:
    launched = _call(rows_launcher, dtype)
    assert kind in launched.kernel["name"]
    number = struct.pack("<Q", launched.arguments[2])[: struct.calcsize(pack)]
    assert struct.unpack(pack, number) == (2.0,)


def test_first_configuration_whose_condition_holds(rows_launcher: Launcher) -> None:
    launched = _call(rows_launcher, n=64)
    assert launched.kernel["name"] == "::rows<float, int32_t, 64>"
    assert (launched.grid, launched.block) == ((5, 1, 1), (16, 4, 1))
    text = rows_launcher.call("rows__cuda__float32", _numbers(n=77), arguments=7)
    assert text == "rows(): no configuration of its kernel is for this call, N = 77; there are N <= 64, N != 77"


@pytest.mark.parametrize(
    ("changes", "index"),
    [
        ({}, "int32_t"),
        ({"inner": -3}, "int32_t"),
        ({"stride": 1 << 31}, "int64_t"),
        ({"stride": 1 << 29, "m": 4}, "int32_t"),
        ({"stride": 1 << 29, "m": 5}, "int64_t"),  # each number fits, the last element's offset does not
        ({"stride": -(1 << 31)}, "int64_t"),
    ],
)
def test_integers_have_64_bits_where_one_or_an_offset_needs_them(
    rows_launcher: Launcher, changes: dict[str, int], index: str
) -> None:
    launched = _call(rows_launcher, **changes)
    assert index in launched.kernel["name"]
    given = launched.arguments[5:]
    assert given == tuple(changes.get(name, usual) % (1 << 64) for name, usual in (("stride", 320), ("inner", 1)))


def test_shared_memory_beyond_what_every_kernel_has(rows_launcher: Launcher) -> None:
    launched = _call(rows_launcher, m=400)
    assert launched.shared_bytes == 51200
    assert "set_function 8 232448\n" in launched.records
    rows_launcher.driver.fake_static_shared(1024)
    launched, text = (
        _call(rows_launcher, m=380),
        rows_launcher.call("rows__cuda__float32", _numbers(m=1810), arguments=7),
    )
    rows_launcher.driver.fake_static_shared(0)
    # 48,640 bytes are below 48 KiB, but not with the static ones.
    assert "set_function 8 231424\n" in launched.records
    assert text == (
        "rows(): the kernel's launch asks for 231680 bytes of dynamic shared memory, and GPU 0 has 231424 for it"
    )


def test_gpu_gets_the_image_that_serves_it(rows_launcher: Launcher) -> None:
    found = {}
    for gpu, (major, minor) in enumerate([(8, 6), (9, 0), (12, 0)], start=20):
        rows_launcher.driver.fake_gpu(gpu, major, minor, 232448)
        text = rows_launcher.call("rows__cuda__float32", _numbers(), arguments=7)
        if isinstance(text, Launched):
            data = int(text.records.partition("load ")[2].split()[0])
            mark, *header = struct.unpack("<8sIII", ctypes.string_at(data - 32, 20))
            assert mark == b"OPSMITHK"
            found[major, minor] = (*header, ctypes.string_at(data, 4))
    rows_launcher.driver.fake_gpu(0, 9, 0, 232448)
    machine = 2
    assert found == {(8, 6): (machine, 80, 0, b"\x7fELF"), (9, 0): (machine, 90, 1, b"\x7fELF")}
    # PTX of 9.0a serves no other GPU.
    assert "neither machine code for this GPU, of compute capability 12.0" in str(text)


def test_kernels_of_one_image_are_loaded_once_for_each_gpu(rows_launcher: Launcher) -> None:
    counts = []
    for gpu, n in ((30, 64), (30, 160), (30, 64), (31, 160)):
        rows_launcher.driver.fake_gpu(gpu, 9, 0, 232448)
        records = _call(rows_launcher, n=n).records
        counts.append((records.count("load "), records.count("function ")))
    rows_launcher.driver.fake_gpu(0, 9, 0, 232448)
    assert counts == [(1, 1), (0, 1), (0, 0), (1, 1)]


def test_errors_have_cuda_s_name(rows_launcher: Launcher) -> None:
    rows_launcher.driver.fake_clear(7)
    rows_launcher.driver.fake_fail(b"cuLaunchKernel", 700)
    text = rows_launcher.call_again("rows__cuda__float32", _numbers(), arguments=7)
    assert text == "rows(): CUDA error: as the driver says it (CUDA_ERROR_ILLEGAL_ADDRESS) when a kernel was launched"


def copied(x: Float[Tensor, "n"], k: int, w: int) -> Float[Tensor, "n"]:
    return x.clone()


def test_integers_of_a_type_of_their_own_must_fit(defined: Callable[..., Definition], tmp_path: Path) -> None:
    definition = defined(copied, "inner::copied", grid=1, block="k", dtypes=(torch.float32,))
    kinds = ["View<const float, 1>", "int64_t", "int64_t", "View<float, 1>"]
    launcher = Launcher(definition, tmp_path, {"copied__cuda__float32": kinds})

    def call(n: int = 3, k: int = 4, w: int = 1 << 40) -> Launched | str:
        return launcher.call("copied__cuda__float32", [1024, n, 1, k, w, 2048, n, 1], arguments=5)

    launched = call()
    assert isinstance(launched, Launched)
    assert launched.kernel["name"] == "::inner::copied"
    assert launched.arguments == (1024, 2048, 3, 4, 1 << 40)
    declare = "declare it as int64_t, or as Index in a template over `class Index`"
    assert call(n=1 << 31) == (
        f"copied(): n is 2147483648, which does not fit into the kernel's 32-bit integer; {declare}"
    )
    assert call(w=-1) == f"copied(): w is -1, which does not fit into the kernel's 64-bit unsigned integer; {declare}"
    words = "and CUDA's has 1 to 1024 threads, at most 64 along the third axis"
    assert call(k=1025) == f"copied(): the kernel's block would be 1025 x 1 x 1, {words}"
    assert call(k=0) == f"copied(): the kernel's block would be 0 x 1 x 1, {words}"


def shifted(
    x: Float[Tensor, "*n"],
    bias: Float[Tensor, "*n"] | None,
    mode: Literal[1, 3],
    is_last: bool,
    is_twice: bool,
    f: float,
) -> Float[Tensor, "*n"]:
    return x


def test_choices_and_optional_tensors(defined: Callable[..., Definition], tmp_path: Path) -> None:
    definition = defined(shifted, "shifted", grid="cdiv(n, 64)", block=64, dtypes=(torch.float32,))
    kinds = ["View<const float, 1>", "View<const float, 1>", "int64_t", "bool", "bool", "double", "View<float, 1>"]
    launcher = Launcher(definition, tmp_path, {"shifted__cuda__float32": kinds})
    assert len(launcher.request["kernels"]) == 4

    def call(bias: int, mode: int, is_last: int) -> Launched | str:
        given = [1024, 100, 1, bias, 100 if bias else 0, 1, mode, is_last, 1, 3, 2048, 100, 1]
        return launcher.call("shifted__cuda__float32", given, arguments=6)

    launched = call(0, 3, 0)
    assert isinstance(launched, Launched)
    assert launched.kernel["name"] == "::shifted<3, false, float>"
    assert launched.arguments[:4] == (1024, 0, 2048, 100)
    assert launched.arguments[4] & 0xFF == 1
    launched = call(512, 1, 1)
    assert isinstance(launched, Launched)
    assert launched.kernel["name"] == "::shifted<1, true, float>"
    assert launched.arguments[:2] == (1024, 512)
    assert call(0, 2, 0) == "shifted(): the value of mode is not one of those that the definition names"
