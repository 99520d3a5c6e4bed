"""A Triton kernel's launcher asks the driver for the right kernel, grid and arguments; the driver here only records."""

from __future__ import annotations

import ctypes
import struct
import sys
import textwrap
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import pytest
from jaxtyping import Float
from torch import Tensor

import opsmith
from opsmith.runtime.define import define
from opsmith.runtime.options import OpOptions
from opsmith.spec.definition import Definition

sys.path.append(str(Path(__file__).parent))

from launching import Launched, Launcher

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed"),
    pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="CUDA's own driver may be loaded here already"),
]

_KERNELS = """
import triton
import triton.language as tl


@triton.jit
def rows(x, y, scale, N, M, x_stride_0, x_stride_1, y_stride_0, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (columns < N) & (row < M)
    values = tl.load(x + row * x_stride_0 + columns * x_stride_1, inside)
    tl.store(y + row * y_stride_0 + columns, values * scale.to(values.dtype), inside)


@triton.jit
def copied(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at))


@triton.jit
def shifted(x, bias, y, n, mode: tl.constexpr, is_twice, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, at < n)
    if bias is not None:
        values += tl.load(bias + at, at < n)
    if mode == "negate":
        values = -values
    if is_twice:
        values *= 2
    tl.store(y + at, values, at < n)
"""


@pytest.fixture(scope="module")
def defined(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Definition]:
    """Return a function that declares an operator whose kernels are in a file of its own folder."""
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "kernels.py").write_text(_KERNELS)

    def declare(function: Callable[..., object], kernel: str, **options: object) -> Definition:
        launch = {name: options.pop(name) for name in ("grid", "configs", "BLOCK") if name in options}
        found = opsmith.triton(str(folder / kernel), **launch)  # type: ignore[arg-type]
        return define(function, OpOptions(cuda=found, namespace="launching", **options))  # type: ignore[arg-type]

    return declare


def rows(x: Float[Tensor, "M N"], scale: float) -> Float[Tensor, "M N"]:
    return x * scale


@pytest.fixture(scope="module")
def rows_launcher(defined: Callable[..., Definition], tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    import torch

    definition = defined(
        rows,
        "kernels.py:rows",
        grid="M, cdiv(N, BLOCK)",
        configs=[
            {"BLOCK": 128, "num_warps": 2, "when": "N == 48"},  # the last one, once more
            {"BLOCK": 64, "num_warps": 1, "when": "N <= BLOCK"},
            {"BLOCK": 128, "num_warps": 2, "when": "N < 1000000"},
        ],
        dtypes=(torch.float32, torch.float64),
        outputs="y",
    )
    parameters = {
        "rows__cuda__float32": ["View<const float, 2>", "double", "View<float, 2>"],
        "rows__cuda__float64": ["View<const double, 2>", "double", "View<double, 2>"],
    }
    return Launcher(definition, tmp_path_factory.mktemp("rows"), parameters)


def _call(launcher: Launcher, **changes: int) -> Launched:
    launched = launcher.call(
        "rows__cuda__float32", _numbers(**changes), stream=7, arguments=8 if "unit" in changes else 7
    )
    assert isinstance(launched, Launched), launched
    return launched


def _numbers(
    m: int = 5, n: int = 160, stride: int = 320, inner: int = 1, at: int = 4096, unit: int = 0, scale: int = 2
) -> list[int]:
    return [at, m, n, stride, inner, scale, 8192, m, n, n, 1]


def test_grid_arguments_and_stream(rows_launcher: Launcher) -> None:
    launched = _call(rows_launcher)
    assert launched.grid == (5, 2, 1)
    assert launched.block == (64, 1, 1)
    assert launched.stream == 7
    x, y, scale, n, m, x_stride_0, y_stride_0 = launched.arguments
    assert (x, y, n, m, x_stride_0, y_stride_0) == (4096, 8192, 160, 5, 320, 160)
    assert struct.unpack("<f", struct.pack("<Q", scale)[:4]) == (2.0,)
    assert launched.kernel["types"]["x"] == "*fp32"
    assert launched.kernel["constants"] == {"BLOCK": 128, "x_stride_1": 1}


def test_float64_tensors_get_numbers_in_float64(rows_launcher: Launcher) -> None:
    launched = rows_launcher.call("rows__cuda__float64", _numbers(), arguments=7)
    assert isinstance(launched, Launched)
    assert launched.kernel["types"]["scale"] == "fp64"
    assert struct.unpack("<d", struct.pack("<Q", launched.arguments[2])) == (2.0,)


def test_first_configuration_whose_condition_holds(rows_launcher: Launcher) -> None:
    launched = _call(rows_launcher, n=64, stride=64)
    assert launched.kernel["constants"]["BLOCK"] == 64
    assert launched.grid == (5, 1, 1)
    assert launched.block == (32, 1, 1)


def test_a_configuration_that_is_there_twice_is_one_kernel(rows_launcher: Launcher) -> None:
    launched = _call(rows_launcher, n=48, stride=48)
    assert launched.kernel["constants"]["BLOCK"] == 128
    assert launched.block == (64, 1, 1)
    blocks = [variant["constants"]["BLOCK"] for variant in rows_launcher.request["kernels"]]
    assert blocks.count(128) == blocks.count(64)


def test_no_configuration_is_an_error(rows_launcher: Launcher) -> None:
    text = rows_launcher.call("rows__cuda__float32", _numbers(n=1_000_000, stride=1_000_000), arguments=7)
    assert text == (
        "rows(): no configuration of its kernel is for this call, N = 1000000; there are N == 48, N <= BLOCK, N < 1000000"
    )


@pytest.mark.parametrize(
    ("changes", "multiples", "number"),
    [
        ({}, {"x", "y", "N", "x_stride_0", "y_stride_0"}, "i32"),
        ({"m": 7}, {"x", "y", "N", "x_stride_0", "y_stride_0"}, "i32"),  # rows are not what accesses go along
        ({"n": 161}, {"x", "y"}, "i32"),
        ({"stride": 321}, {"x", "y"}, "i32"),
        ({"at": 4100}, set(), "i32"),
        ({"inner": 2}, set(), "i32"),
        ({"stride": 1 << 31}, {"x", "y", "N", "x_stride_0", "y_stride_0"}, "i64"),
        ({"stride": (1 << 31) + 1}, set(), "i64"),
    ],
)
def test_specialisation_holds_for_the_call(
    rows_launcher: Launcher, changes: dict[str, int], multiples: set[str], number: str
) -> None:
    is_general = not multiples
    launched = rows_launcher.call("rows__cuda__float32", _numbers(**changes), arguments=8 if is_general else 7)
    assert isinstance(launched, Launched)
    assert set(launched.kernel["multiples"]) == multiples
    assert launched.kernel["types"]["N"] == number
    assert ("x_stride_1" in launched.kernel["constants"]) is not is_general
    strides = {"x_stride_1": changes.get("inner", 1)} if is_general else {}
    assert launched.arguments[5] == changes.get("stride", 320)
    assert all(launched.arguments[6] == stride for stride in strides.values())


def test_kernel_is_loaded_once_for_each_gpu(rows_launcher: Launcher) -> None:
    numbers = _numbers(n=48, stride=48)
    first = rows_launcher.call("rows__cuda__float32", numbers, arguments=7)
    second = rows_launcher.call_again("rows__cuda__float32", numbers, arguments=7)
    assert isinstance(first, Launched)
    assert isinstance(second, Launched)
    assert second.records.count("load ") <= 1
    rows_launcher.driver.fake_gpu(1, 9, 0, 232448)
    other = rows_launcher.call("rows__cuda__float32", numbers, arguments=7)
    rows_launcher.driver.fake_gpu(0, 9, 0, 232448)
    assert isinstance(other, Launched)
    assert other.records.count("load ") == 1


def copied(x: Float[Tensor, "1024"]) -> Float[Tensor, "1024"]:
    return x.clone()


def test_gpu_gets_the_image_that_serves_it(defined: Callable[..., Definition], tmp_path: Path) -> None:
    import torch

    definition = defined(copied, "kernels.py:copied", grid=8, BLOCK=128, outputs="y", dtypes=(torch.float32,))
    parameters = {"copied__cuda__float32": ["View<const float, 1>", "View<float, 1>"]}
    launcher = Launcher(definition, tmp_path, parameters, archs="8.0;9.0+PTX")
    numbers = [1024, 1024, 1, 8192, 1024, 1]
    found = {}
    for gpu, (major, minor) in enumerate([(8, 0), (8, 6), (9, 0), (12, 0)], start=2):
        launcher.driver.fake_gpu(gpu, major, minor, 232448)
        launched = launcher.call("copied__cuda__float32", numbers, arguments=2)
        assert isinstance(launched, Launched), launched
        data = int(launched.records.partition("load ")[2].split()[0])
        mark, *header = struct.unpack("<8sIII", ctypes.string_at(data - 32, 20))
        assert mark == b"OPSMITHK"
        found[major, minor] = (*header, ctypes.string_at(data, 4))
    launcher.driver.fake_gpu(6, 7, 5, 232448)
    text = launcher.call("copied__cuda__float32", numbers, arguments=2)
    launcher.driver.fake_gpu(0, 9, 0, 232448)
    machine, ptx = 2, 1
    assert found[8, 0] == found[8, 6] == (machine, 80, 0, b"\x7fELF")
    assert found[9, 0] == (machine, 90, 1, b"\x7fELF")
    assert found[12, 0] == (ptx, 80, 0, b"//\n/")
    assert "neither machine code for this GPU, of compute capability 7.5" in str(text)


def test_thread_without_context_gets_that_of_the_data(rows_launcher: Launcher) -> None:
    rows_launcher.driver.fake_context(0)
    launched = rows_launcher.call("rows__cuda__float32", _numbers(), arguments=7)
    assert isinstance(launched, Launched)
    assert launched.records.startswith("pointer_attribute 9 of 4096\nretain 0\nset_context 0x200\n")


def test_errors_have_cuda_s_name(rows_launcher: Launcher) -> None:
    rows_launcher.driver.fake_clear(9)
    rows_launcher.driver.fake_fail(b"cuLaunchKernel", 700)
    text = rows_launcher.call_again("rows__cuda__float32", _numbers(), arguments=7)
    assert text == "rows(): CUDA error: as the driver says it (CUDA_ERROR_ILLEGAL_ADDRESS) when a kernel was launched"
    rows_launcher.driver.fake_clear(9)
    rows_launcher.driver.fake_gpu(9, 9, 0, 232448)
    rows_launcher.driver.fake_fail(b"cuModuleLoadData", 209)
    text = rows_launcher.call_again("rows__cuda__float32", _numbers(), arguments=7)
    rows_launcher.driver.fake_gpu(0, 9, 0, 232448)
    assert "(CUDA_ERROR_NO_BINARY_FOR_GPU) when a kernel was loaded" in str(text)


def test_grids_that_no_gpu_has(rows_launcher: Launcher) -> None:
    text = rows_launcher.call("rows__cuda__float32", _numbers(m=0), arguments=7)
    assert "grid would be 0 x 2 x 1, so that nothing writes the outputs" in str(text)
    text = rows_launcher.call("rows__cuda__float32", _numbers(m=1 << 31), arguments=7)
    assert "grid would be 2147483648 x 2 x 1, and CUDA's is at most" in str(text)


def shifted(
    x: Float[Tensor, "*n"], bias: Float[Tensor, "*n"] | None, mode: Literal["keep", "negate"], is_twice: bool
) -> Float[Tensor, "*n"]:
    return x if mode == "keep" else -x


def test_choices_and_optional_tensors(defined: Callable[..., Definition], tmp_path: Path) -> None:
    import torch

    definition = defined(
        shifted, "kernels.py:shifted", grid="cdiv(n, BLOCK)", BLOCK=64, outputs="y", dtypes=(torch.float32,)
    )
    kinds = ["View<const float, 1>", "View<const float, 1>", "const char*", "bool", "View<float, 1>"]
    launcher = Launcher(definition, tmp_path, {"shifted__cuda__float32": kinds})
    texts = {name: ctypes.create_string_buffer(name.encode()) for name in ("keep", "negate", "other")}

    def call(bias: int, mode: str, arguments: int) -> Launched | str:
        given = [1024, 100, 1, bias, 100 if bias else 0, 1, ctypes.addressof(texts[mode]), 1, 2048, 100, 1]
        return launcher.call("shifted__cuda__float32", given, arguments=arguments)

    launched = call(0, "negate", 4)
    assert isinstance(launched, Launched)
    assert launched.kernel["constants"] == {"bias": None, "mode": "negate", "BLOCK": 64}
    assert launched.arguments[:3] == (1024, 2048, 100)
    assert launched.arguments[3] & 0xFF == 1
    launched = call(512, "keep", 5)
    assert isinstance(launched, Launched)
    assert launched.kernel["constants"] == {"mode": "keep", "BLOCK": 64}
    assert launched.arguments[:4] == (1024, 512, 2048, 100)
    assert launched.grid == (2, 1, 1)
    assert call(0, "other", 4) == "shifted(): the value of mode is not one of those that the definition names"


def test_errors_of_triton_are_told_at_the_kernel_s_line(tmp_path: Path) -> None:
    from opsmith.build.diagnose import explain_failure
    from opsmith.build.ninja import run_steps
    from opsmith.build.prepare import prepare
    from opsmith.spec.definition import Group

    kernel = """
    import triton
    import triton.language as tl


    @triton.jit
    def broken(x, y, n, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, at < n) + missing, at < n)
    """
    (tmp_path / "broken.py").write_text(textwrap.dedent(kernel))

    def body(x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
        return x + 1

    launch = opsmith.triton(str(tmp_path / "broken.py:broken"), grid="cdiv(n, BLOCK)", BLOCK=64)
    definition = define(body, OpOptions(cuda=launch, namespace="launching", outputs="y"))
    group = Group(definition.module, definition.file, (definition,))
    plan = prepare(group, ("cuda",), archs="9.0", strict=True).plan
    output = run_steps(plan, tmp_path, jobs=2)
    assert output is not None
    text = str(explain_failure(plan, output))
    assert f"{tmp_path / 'broken.py'}:9:48: NameError: missing is not defined" in text
    assert "tl.load(x + at, at < n) + missing" in text
