"""A CuTe DSL kernel's launcher calls its host function, and this the driver, with the right arguments; here it records."""

from __future__ import annotations

import ctypes
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import opsmith
from opsmith.runtime.define import define
from opsmith.runtime.options import OpOptions

sys.path.append(str(Path(__file__).parent))

from cute_here import needs_cute
from launching import Launched, Launcher

pytestmark = [
    pytest.mark.compile,
    needs_cute,
    pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="CUDA's own driver may be loaded here already"),
]

_KERNELS = """
from typing import Optional

import cuda.bindings.driver as cuda
import cutlass
from cutlass import cute


@cute.kernel
def rows_kernel(
    x: cute.Tensor,
    y: cute.Tensor,
    bias: Optional[cute.Tensor],
    one: cute.Tensor,
    k: cutlass.Int32,
    factor: cutlass.Float32,
    twice: cutlass.Boolean,
    mode: cutlass.Constexpr,
    THREADS: cutlass.Constexpr,
):
    thread, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    for at in cutlass.range(thread, x.shape[1], THREADS):
        value = x[row, at].to(cutlass.Float32) * factor + k + one[0]
        if cutlass.const_expr(bias is not None):
            value += bias[at].to(cutlass.Float32)
        if cutlass.const_expr(mode == "b"):
            value += 1.0
        if twice:
            value *= 2.0
        y[row, at] = value.to(y.element_type)


@cute.jit
def rows(
    x: cute.Tensor,
    y: cute.Tensor,
    bias: Optional[cute.Tensor],
    one: cute.Tensor,
    M: cutlass.Int64,
    shared: cutlass.Int64,
    k: cutlass.Int32,
    factor: cutlass.Float32,
    twice: cutlass.Boolean,
    mode: cutlass.Constexpr,
    THREADS: cutlass.Constexpr,
    stream: cuda.CUstream,
):
    rows_kernel(x, y, bias, one, k, factor, twice, mode, THREADS).launch(
        grid=[M, 1, 1], block=[THREADS, 1, 1], smem=shared, stream=stream
    )
"""


_PAIR = """
import cuda.bindings.driver as cuda
import cutlass
from cutlass import cute


@cute.kernel
def first(x: cute.Tensor, y: cute.Tensor):
    y[0] = x[0]


@cute.kernel
def second(y: cute.Tensor):
    y[1] = y[0]


@cute.jit
def pair(x: cute.Tensor, y: cute.Tensor, stream: cuda.CUstream):
    first(x, y).launch(grid=[2, 1, 1], block=[32, 1, 1], cluster=[2, 1, 1], stream=stream)
    second(y).launch(grid=[3, 4, 5], block=[8, 8, 2], stream=stream, cooperative=True)
"""


def pair(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x


def rows(
    x: Float[Tensor, "M N"],
    bias: Float[Tensor, "N"] | None,
    one: Float[Tensor, ""],
    k: int,
    shared: int,
    factor: float,
    twice: bool,
    mode: Literal["a", "b"],
) -> Float[Tensor, "M N"]:
    raise NotImplementedError


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "kernels.py").write_text(_KERNELS)
    configs = [{"THREADS": 128, "when": "N <= 1024"}, {"THREADS": 256}]
    kernel = opsmith.cute(str(folder / "kernels.py:rows"), configs=configs)
    options = OpOptions(cuda=kernel, outputs="y", namespace="launching_cute", dtypes=(torch.float32, torch.bfloat16))
    definition = define(rows, options)
    parameters = {
        f"rows__cuda__{name}": [
            *[f"View<const {kind}, {rank}>" for rank in (2, 1, 0)],
            *("int64_t", "int64_t", "double", "bool", "const char*"),
            f"View<{kind}, 2>",
        ]
        for name, kind in (("float32", "float"), ("bfloat16", "bfloat16"))
    }
    return Launcher(definition, tmp_path_factory.mktemp("rows"), parameters, archs="8.0;9.0+PTX")


@pytest.fixture(autouse=True)
def hopper(launcher: Launcher) -> Iterator[None]:
    """Let each test begin on the GPU 0, an H100, and with 4 words of each argument recorded."""
    launcher.driver.fake_gpu(0, 9, 0, 232448)
    launcher.driver.fake_words(4)
    yield
    launcher.driver.fake_gpu(0, 9, 0, 232448)
    launcher.driver.fake_words(1)


def _numbers(text: bytes, *, m: int = 5, n: int = 160, bias: int = 20480, k: int = 3, shared: int = 0) -> list[int]:
    """Return a call's arguments; `text` must live as long as the call."""
    address = ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p).value
    assert address is not None
    x = [4096, m, n, 320, 1]
    return [*x, bias, n, 1, 40960, k, shared, 2, 1, address, 8192, m, n, n, 1]


def _call(
    launcher: Launcher, dtype: str = "float32", mode: bytes = b"b", *, has_bias: bool = True, **changes: int
) -> Launched:
    numbers = _numbers(mode, bias=20480 if has_bias else 0, **changes)
    found = launcher.call(f"rows__cuda__{dtype}", numbers, stream=7, arguments=7 if has_bias else 6)
    assert isinstance(found, Launched), found
    return found


def _given(kernel: dict[str, dict[str, dict[str, object]]], name: str) -> object:
    return next(iter(kernel["arguments"][name].values()))


def test_grid_block_stream_and_arguments(launcher: Launcher) -> None:
    found = _call(launcher)
    assert (found.grid, found.block, found.shared_bytes, found.stream) == ((5, 1, 1), (128, 1, 1), 0, 7)
    arguments = [found.arguments[at : at + 4] for at in range(0, len(found.arguments), 4)]
    x, y, bias, one, k, factor, twice = arguments
    assert x == (4096, 5, 160, 320)
    assert y == (8192, 5, 160, 160)
    assert bias[:2] == (20480, 160)
    assert one[0] == 40960
    assert k[0] & 0xFFFFFFFF == 3
    assert struct.unpack("<f", struct.pack("<Q", factor[0])[:4]) == (2.0,)
    assert twice[0] & 0xFF == 1


def test_a_tensor_that_is_absent_is_left_out(launcher: Launcher) -> None:
    found = _call(launcher, has_bias=False)
    assert _given(found.kernel, "bias") is None
    assert found.arguments[8] == 40960


@pytest.mark.parametrize("mode", ["a", "b"])
@pytest.mark.parametrize(("dtype", "kind"), [("float32", "Float32"), ("bfloat16", "BFloat16")])
def test_the_kernel_is_that_of_the_types_and_choices(launcher: Launcher, mode: str, dtype: str, kind: str) -> None:
    found = _call(launcher, dtype, mode.encode())
    assert (_given(found.kernel, "mode"), _given(found.kernel, "x")) == (mode, kind)


def test_the_first_configuration_whose_condition_holds(launcher: Launcher) -> None:
    assert _call(launcher, n=1024).block == (128, 1, 1)
    assert _call(launcher, n=1025).block == (256, 1, 1)


def test_loaded_once_for_each_gpu_and_the_image_is_for_it(launcher: Launcher) -> None:
    launcher.driver.fake_gpu(3, 8, 6, 101376)  # compute capability 8.6 takes machine code of 8.0
    first = _call(launcher, m=2).records
    assert first.count("library ") == 1
    assert "set_kernel 8 101376 on 3" in first
    assert _call(launcher, m=2).records.count("library ") == 0
    launcher.driver.fake_gpu(4, 8, 0, 166912)  # the same image: the library is there, the kernel is not
    second = _call(launcher, m=2).records
    assert second.count("library ") == 0
    assert "function_of_kernel on 4" in second
    assert "set_kernel 8 166912 on 4" in second
    launcher.driver.fake_gpu(5, 9, 0, 232448)
    assert first.partition("launch ")[2].split()[0] != _call(launcher, m=2).records.partition("launch ")[2].split()[0]


def test_a_gpu_that_no_image_is_for(launcher: Launcher) -> None:
    launcher.driver.fake_gpu(6, 7, 5, 65536)
    message = launcher.call("rows__cuda__float32", _numbers(b"b"), arguments=7)
    assert "neither machine code for this GPU, of compute capability 7.5" in str(message)


@pytest.mark.parametrize(
    ("function", "what"),
    [
        ("cuLibraryLoadData", "when a kernel was loaded"),
        ("cuLibraryGetKernel", "when a kernel was looked up"),
        ("cuKernelSetAttribute", "when a kernel was looked up"),
        ("cuLaunchKernelEx", "when a kernel was launched"),
    ],
)
def test_an_error_of_the_driver_is_thrown_and_the_next_call_works(launcher: Launcher, function: str, what: str) -> None:
    launcher.driver.fake_gpu(10 + len(function), 9, 0, 232448)  # one that no other test has loaded it on
    # And a kernel that no other test calls, so that its library is not there.
    numbers = _numbers(b"a", n=5000, bias=0) if function == "cuLibraryLoadData" else _numbers(b"b", bias=0)
    launcher.driver.fake_clear(6)
    launcher.driver.fake_fail(function.encode(), 700)
    message = launcher.call_again("rows__cuda__bfloat16", numbers, arguments=6)
    assert message == f"rows(): CUDA error: as the driver says it (CUDA_ERROR_ILLEGAL_ADDRESS) {what}"
    assert isinstance(launcher.call("rows__cuda__bfloat16", numbers, arguments=6), Launched)


def test_an_int_that_does_not_fit(launcher: Launcher) -> None:
    message = launcher.call("rows__cuda__float32", _numbers(b"b", k=1 << 40), arguments=7)
    assert message == (
        "rows(): k is 1099511627776, which does not fit into the kernel's 32-bit integer; declare it as cutlass.Int64"
    )


def test_launches_of_two_kernels_with_their_attributes(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(_PAIR)
    kernel = opsmith.cute(str(tmp_path / "kernels.py:pair"))
    options = OpOptions(cuda=kernel, outputs="y", namespace="launching_cute", dtypes=(torch.float32,))
    parameters = {"pair__cuda__float32": ["View<const float, 1>", "View<float, 1>"]}
    launcher = Launcher(define(pair, options), tmp_path, parameters)
    launcher.driver.fake_words(2)
    found = launcher.call("pair__cuda__float32", [4096, 7, 1, 8192, 7, 1], stream=9, arguments=1)
    assert isinstance(found, Launched), found
    launches = [line for line in found.records.splitlines() if line.startswith("launch ")]
    assert "grid 2 1 1 block 32 1 1 shared 0 stream 9 arguments 4096 7" in launches[0]
    assert "grid 3 4 5 block 8 8 2 shared 0 stream 9 arguments 8192 7" in launches[1]
    first, _, second = found.records.partition("launched ")
    # As cuda.h numbers them: 4 is the size of a cluster, 2 whether a launch is cooperative.
    assert ("attribute 4 2" in first, "attribute 4 2" in second) == (True, False)
    assert ("attribute 2 1" in first, "attribute 2 1" in second) == (False, True)
    assert found.records.count("library ") == 1
    assert found.records.count("function_of_kernel") == 2


def test_too_much_shared_memory_is_an_error_and_not_printed(
    launcher: Launcher, capfd: pytest.CaptureFixture[str]
) -> None:
    message = str(launcher.call("rows__cuda__float32", _numbers(b"b", shared=1 << 20), arguments=7))
    assert "launch shared memory exceeds current GPU arch sm_90a allowed. Allocated: 1048576 bytes" in message
    assert capfd.readouterr().out == ""
    assert _call(launcher, shared=1024).shared_bytes == 1024


def test_threads_load_a_kernel_once(launcher: Launcher) -> None:
    launcher.driver.fake_gpu(20, 9, 0, 232448)
    launcher.driver.fake_clear(6)
    numbers = _numbers(b"a", bias=0, n=3000)
    threads = [
        threading.Thread(target=launcher.call_again, args=("rows__cuda__float32", numbers), kwargs={"arguments": 6})
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records = launcher.driver.fake_records().decode()
    assert records.count("library ") == 1
    assert records.count("function_of_kernel on 20") == 1
    assert records.count("launch ") == 8


def test_the_object_exports_nothing_and_is_for_any_processor(launcher: Launcher) -> None:
    (library,) = launcher.folder.glob("*.json.o")
    symbols = subprocess.run(["readelf", "-sW", library], check=True, capture_output=True, text=True).stdout
    visible = [
        line for line in symbols.splitlines() if " GLOBAL " in line and " DEFAULT " in line and "UND" not in line
    ]
    assert [line for line in visible if "opsmith" in line and "embedded" not in line] == []
    code = subprocess.run(["objdump", "-d", library], check=True, capture_output=True, text=True).stdout
    assert "%ymm" not in code
    assert "%zmm" not in code


def test_the_library_links_nothing_of_cuda(launcher: Launcher) -> None:
    needed = subprocess.run(
        ["readelf", "-dW", launcher.folder / "harness.so"], check=True, capture_output=True, text=True
    ).stdout
    assert "cuda" not in needed
    assert "cute" not in needed
