"""Launchers take HIP's runtime from where torch has it, and agree with HIP's own headers."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from jaxtyping import Float
from torch import Tensor

import opsmith
from compilers import INCLUDE, compiled, find_compiler
from opsmith.codegen.python_source import read_triton_function
from opsmith.codegen.triton_launcher import generate_triton_launcher
from opsmith.codegen.triton_variants import find_variants
from opsmith.runtime.define import define
from opsmith.runtime.options import OpOptions

pytestmark = pytest.mark.compile

HERE = Path(__file__).parent
_PROGRAM = """
#include <opsmith/embedded.h>
#include <cstdio>
int main() {
  try {
    int device = -1;
    opsmith::embedded::Driver::get("op").get_device(&device);
    std::printf("GPU %d\\n", device);
  } catch (const opsmith::Error& error) {
    std::printf("%s\\n", error.what());
  }
}
"""
# What a launch calls, beside what HIP declares: a handle is a pointer, and a status is 32 bits wide.
_AGREES = """
#include <hip/hip_runtime_api.h>
#include <opsmith/embedded.h>
#include <opsmith/kernel.h>

#include <cstddef>
#include <type_traits>

template <class A, class B>
constexpr bool alike = std::is_pointer_v<A> == std::is_pointer_v<B> && sizeof(A) == sizeof(B) &&
                       std::is_floating_point_v<A> == std::is_floating_point_v<B>;
template <class Ours, class Theirs>
struct Same : std::false_type {};
template <class A, class... As, class B, class... Bs>
struct Same<A (*)(As...), B(Bs...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(As) != sizeof...(Bs)) return false;
    else return alike<A, B> && (alike<As, Bs> && ...);
  }();
};

using opsmith::embedded::Driver;
static_assert(Same<decltype(Driver::get_device), decltype(hipGetDevice)>::value);
static_assert(Same<decltype(Driver::device_properties), decltype(hipGetDeviceProperties)>::value);
static_assert(Same<decltype(Driver::load), decltype(hipModuleLoadData)>::value);
static_assert(Same<decltype(Driver::function), decltype(hipModuleGetFunction)>::value);
static_assert(Same<decltype(Driver::capture_mode), decltype(hipThreadExchangeStreamCaptureMode)>::value);
static_assert(Same<decltype(Driver::launch), decltype(hipModuleLaunchKernel)>::value);
static_assert(Same<decltype(Driver::last_error), decltype(hipGetLastError)>::value);
static_assert(Same<decltype(Driver::error_name), decltype(hipGetErrorName)>::value);
static_assert(Same<decltype(Driver::error_text), decltype(hipGetErrorString)>::value);
static_assert(opsmith::embedded::detail::relaxed_capture == hipStreamCaptureModeRelaxed);
static_assert(hipSuccess == 0);
#ifdef hipGetDeviceProperties  // since ROCm 6 a macro for the name that launchers look up
using opsmith::embedded::detail::Properties;
static_assert(sizeof(hipDeviceProp_t) <= sizeof(Properties::bytes));
static_assert(offsetof(hipDeviceProp_t, sharedMemPerBlock) == Properties::shared_place);
static_assert(offsetof(hipDeviceProp_t, gcnArchName) == Properties::arch_place);
#else
static_assert(HIP_VERSION_MAJOR < 6);
#endif
"""
_FLAGS = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-DOPSMITH_HIP", f"-I{INCLUDE}")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that asks for the current GPU by what a launcher finds."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "main.cpp").write_text(_PROGRAM)
    subprocess.run(["g++", *_FLAGS, "main.cpp", "-o", "main", "-ldl"], cwd=folder, check=True)
    return folder / "main"


def _answer(program: Path, folder: Path, *preloaded: str) -> str:
    env = {"LD_LIBRARY_PATH": str(folder), "LD_PRELOAD": " ".join(preloaded)}
    return subprocess.run([str(program)], env=env, capture_output=True, text=True, check=True).stdout


def test_torch_s_runtime_comes_first_whatever_its_version(program: Path, tmp_path: Path) -> None:
    for name, device in (("libamdhip64.so.99", 3), ("libamdhip64.so.7", 4)):
        text = (HERE / "fake_hip.c").read_text().replace("static int device,", f"static int device = {device},")
        (tmp_path / "hip.c").write_text(text)
        command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}", f"-I{HERE}", "hip.c", "-o", name]
        subprocess.run(command, cwd=tmp_path, check=True)
    command = ["gcc", "-shared", "-fPIC", "-Wl,-soname,libtorch_hip.so", "-Wl,--no-as-needed", "-x", "c", "/dev/null"]
    subprocess.run([*command, "-x", "none", "./libamdhip64.so.99", "-o", "libtorch_hip.so"], cwd=tmp_path, check=True)
    assert _answer(program, tmp_path, "libtorch_hip.so", "libamdhip64.so.7") == "GPU 3\n"
    assert _answer(program, tmp_path) == "GPU 4\n"


def test_a_runtime_that_is_too_old_is_named(program: Path, tmp_path: Path) -> None:
    (tmp_path / "old.c").write_text(
        "int hipModuleLaunchKernel(void) { return 0; }\nint hipGetDevice(void) { return 0; }\n"
    )
    command = ["gcc", "-shared", "-fPIC", "-Wl,-soname,libamdhip64.so", "old.c", "-o", "libamdhip64.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert _answer(program, tmp_path, "libamdhip64.so") == (
        "op(): the HIP runtime of this process has no hipGetDevicePropertiesR0600; ROCm 6 and newer have it\n"
    )


def rows(
    x: Float[Tensor, "M N"], bias: Float[Tensor, "N"] | None, factor: float, is_twice: bool
) -> Float[Tensor, "M N"]:
    return x * factor


@pytest.fixture
def launcher(tmp_path: Path) -> str:
    """The text of a launcher that passes arguments of every kind."""
    (tmp_path / "kernels.py").write_text(
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def rows(x, bias, factor, is_twice, y, N, x_stride_0, x_stride_1, BLOCK: tl.constexpr):\n    pass\n"
    )
    configs = [{"BLOCK": 64, "when": "N <= BLOCK"}, {"BLOCK": 1024}]
    kernel = opsmith.triton(str(tmp_path / "kernels.py:rows"), grid="M, cdiv(N, BLOCK)", configs=configs)
    definition = define(rows, OpOptions(cuda=kernel, namespace="hip", outputs="y"))
    return generate_triton_launcher(find_variants(definition, read_triton_function(definition)))


def test_a_launcher_compiles_beside_hip_s_headers_and_agrees(launcher: str, tmp_path: Path) -> None:
    source = tmp_path / "agrees.cpp"
    source.write_text(_AGREES + launcher)
    compiled(source, find_compiler("hipcc"), "-x", "hip", "--offload-arch=gfx90a", *_FLAGS, "-c", HIP_PLATFORM="amd")


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton, which has the headers, is not installed")
def test_launchers_agree_with_the_headers_that_triton_has(tmp_path: Path) -> None:
    found = find_spec("triton")
    assert found is not None
    assert found.origin is not None
    headers = Path(found.origin).parent / "backends/amd/include"
    source = tmp_path / "agrees.cpp"
    source.write_text(_AGREES)
    compiled(source, find_compiler("g++"), *_FLAGS, "-D__HIP_PLATFORM_AMD__", "-isystem", headers, "-fsyntax-only")
