"""Holds the framework-free headers and the first operators' kernels to their promises, with the compilers at hand."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest
import torch

from compilers import INCLUDE, OPS, compiled, find_compiler, run

pytestmark = pytest.mark.compile

CPP_TESTS = Path(__file__).parent / "cpp"
# The headers without a framework; others in the folder belong to bindings.
GPU_HEADERS = [
    *("host_device.h", "error.h", "types.h", "view.h", "gpu.h", "kernel.h", "math.h", "elementwise.h", "reduce.h"),
    "two_results.h",
    "divide.h",
    "workspace.h",
    "early_launch.h",
    "lanes.h",
]
_GPU_ONLY = ("gpu.h", "workspace.h", "early_launch.h", "lanes.h")
CPU_HEADERS = [*(name for name in GPU_HEADERS if name not in _GPU_ONLY), "cpu.h", "block.h", "product.h"]

HOST_FLAGS = ["-O3", "-fno-math-errno", "-fno-trapping-math", "-pthread", f"-I{INCLUDE}", f"-I{OPS}"]
WARNINGS = ["-Wall", "-Wextra", "-Werror"]

# The parameters of each file's kernels, for one element type: what the generated binding would instantiate.
PROTOTYPES = {
    "add2/add2": ["add2<T>(View<const T, 1>, View<const T, 1>, View<T, 1>{stream})"],
    "sigmoid/sigmoid": [
        "sigmoid<T>(View<const T, 1>, View<T, 1>{stream})",
        "sigmoid_backward<T>(View<const T, 1>, View<const T, 1>, View<T, 1>{stream})",
    ],
    "lltm/gates": [
        "lltm_gates<T>(View<const T, 2>, View<const T, 2>, View<T, 2>, View<T, 2>{stream})",
        "lltm_gates_backward<T>(View<const T, 2>, View<const T, 2>, View<const T, 2>, View<const T, 2>, View<T, 2>, "
        "View<T, 2>{stream})",
    ],
}
FLOATS = ["float", "double", "float16", "bfloat16"]
# One file in `make test`, the others with all that nvcc and hipcc compile.
ON_GPUS = [
    kernels
    if kernels == "sigmoid/sigmoid"
    else pytest.param(kernels, marks=pytest.mark.nightly("compiled by test_compile.py too"))
    for kernels in PROTOTYPES
]
TYPES = {"add2/add2": [*FLOATS, "int32_t", "int64_t"], "sigmoid/sigmoid": FLOATS, "lltm/gates": FLOATS}


def instantiation(kernels: str, suffix: str) -> str:
    """A source file that holds the kernels of a file for all of their element types."""
    stream = ", Stream" if suffix == "cu" else ""
    lines = [f'#include "{kernels}.{suffix}"']
    for dtype in TYPES[kernels]:
        for prototype in PROTOTYPES[kernels]:
            text = prototype.format(stream=stream).replace("<T>", f"<{dtype}>").replace("const T", f"const {dtype}")
            lines.append(f"template void {text.replace('View<T', f'View<{dtype}')};")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module", params=["g++", pytest.param("clang++", marks=pytest.mark.nightly("a second compiler"))])
def host_compiler(request: pytest.FixtureRequest) -> str:
    return find_compiler(request.param)


@pytest.mark.parametrize("program", ["header_test", "math_test", "kernels_test"])
def test_cpp_program_passes(program: str, host_compiler: str) -> None:
    binary = compiled(CPP_TESTS / f"{program}.cpp", host_compiler, "-std=c++17", *HOST_FLAGS, *WARNINGS)
    assert f"{program}: passed" in run(binary).stdout


@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_each_header_compiles_by_itself(standard: str, host_compiler: str, tmp_path: Path) -> None:
    for header in CPU_HEADERS:
        source = tmp_path / f"{header}.cpp"
        source.write_text(f"#include <opsmith/{header}>\n")
        compiled(source, host_compiler, f"-std={standard}", *WARNINGS, "-Wpedantic", "-fsyntax-only", f"-I{INCLUDE}")


def test_fast_math_is_refused(host_compiler: str, tmp_path: Path) -> None:
    source = tmp_path / "fast.cpp"
    source.write_text("#include <opsmith/math.h>\n")
    done = subprocess.run(
        [host_compiler, "-ffast-math", "-fsyntax-only", f"-I{INCLUDE}", str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "-fno-trapping-math in place of -ffast-math" in done.stderr


def test_conversions_are_pytorchs(tmp_path: Path) -> None:
    output = tmp_path / "conversions"
    binary = compiled(CPP_TESTS / "header_test.cpp", find_compiler("g++"), "-std=c++17", *HOST_FLAGS)
    run(binary, "conversions", output)
    data = bytearray(output.read_bytes())

    patterns = torch.arange(65536, dtype=torch.int32).to(torch.int16)
    k = torch.arange(1 << 20, dtype=torch.int64)
    floats = (k * 4096 + k % 4096).to(torch.int32).view(torch.float32)
    offset = 0
    for dtype in (torch.float16, torch.bfloat16):
        ours = torch.frombuffer(data, dtype=torch.float32, count=65536, offset=offset)
        offset += 4 * 65536
        assert_same_bits(ours, patterns.view(dtype).to(torch.float32), torch.int32)
    for dtype in (torch.float16, torch.bfloat16):
        ours = torch.frombuffer(data, dtype=dtype, count=1 << 20, offset=offset)
        offset += 2 << 20
        assert_same_bits(ours, floats.to(dtype), torch.int16)
    assert offset == len(data)


def assert_same_bits(ours: torch.Tensor, theirs: torch.Tensor, bits: torch.dtype) -> None:
    # A NaN's payload differs between PyTorch's own scalar and vectorised conversions, so there is none to agree with.
    assert torch.equal(ours.isnan(), theirs.isnan())
    numbers = ~ours.isnan()
    assert torch.equal(ours.view(bits)[numbers], theirs.view(bits)[numbers])


@pytest.mark.slow("compiles kernels once more; make test has C++17")
@pytest.mark.parametrize("kernels", PROTOTYPES)
def test_cpu_kernel_compiles_as_cpp20(kernels: str, host_compiler: str, tmp_path: Path) -> None:
    source = tmp_path / "all.cpp"
    source.write_text(instantiation(kernels, "cpp"))
    compiled(source, host_compiler, "-std=c++20", *HOST_FLAGS, *WARNINGS, "-c")


def test_best_isa_works_from_a_loaded_library(host_compiler: str, tmp_path: Path) -> None:
    """The choice at run time needs the compiler's runtime, which a shared object with hidden symbols must bring."""
    source = tmp_path / "library.cpp"
    source.write_text(
        '#include "sigmoid/sigmoid.cpp"\n'
        "void opsmith::detail::parallel_run(int64_t begin, int64_t end, int64_t, void (*fn)(int64_t, int64_t, void*),\n"
        "                                   void* context) { fn(begin, end, context); }\n"
        'extern "C" __attribute__((visibility("default"))) void run(int64_t n, const float16* x, float16* y) {\n'
        "  sigmoid<float16>({x, {n}, {1}}, {y, {n}, {1}});\n"
        "}\n"
    )
    flags = ["-shared", "-fPIC", "-fvisibility=hidden", "-Wl,--no-undefined"]
    library = compiled(source, host_compiler, "-std=c++17", *HOST_FLAGS, *flags)
    x = torch.linspace(-20, 20, 100_003).to(torch.float16)
    y = torch.full_like(x, -1)
    ctypes.CDLL(str(library)).run(ctypes.c_int64(len(x)), ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()))
    torch.testing.assert_close(y, torch.sigmoid(x.double()).to(torch.float16), rtol=2**-10, atol=2**-24)


@pytest.mark.slow("compiles with nvcc; test_compile.py has every operator")
@pytest.mark.parametrize("standard", ["c++17", "c++20"])
@pytest.mark.parametrize("kernels", ON_GPUS)
def test_cuda_kernel_compiles(kernels: str, standard: str, tmp_path: Path) -> None:
    source = tmp_path / "all.cu"
    source.write_text(instantiation(kernels, "cu"))
    flags = ["-Xcompiler", "-Wall,-Wextra,-Werror", "-Werror", "all-warnings", f"-I{INCLUDE}", f"-I{OPS}"]
    compiled(source, find_compiler("nvcc"), f"-std={standard}", "-arch=sm_90", *flags, "-c")


@pytest.mark.parametrize("kernels", PROTOTYPES)
def test_cuda_vector_path_moves_16_bytes_at_once(kernels: str, tmp_path: Path) -> None:
    source = tmp_path / "all.cu"
    source.write_text(instantiation(kernels, "cu"))
    ptx = compiled(source, find_compiler("nvcc"), "-std=c++17", "-arch=sm_90", f"-I{INCLUDE}", f"-I{OPS}", "-ptx")
    lines = ptx.read_text().splitlines()
    for direction, vectors in (("ld.global", (".v4.f32", ".v2.f64")), ("st.global", (".v4.f32", ".v2.f64"))):
        for vector in vectors:
            assert any(direction in line and vector in line for line in lines), f"no {direction} of {vector}"
    assert any("cvt.rn.bf16.f32" in line for line in lines), "no conversion by one instruction"


@pytest.mark.slow("compiles with hipcc; test_compile.py has every operator")
@pytest.mark.parametrize("kernels", ON_GPUS)
def test_hip_kernel_compiles(kernels: str, tmp_path: Path) -> None:
    source = tmp_path / "all.cu"
    source.write_text(instantiation(kernels, "cu"))
    flags = ["-x", "hip", "--offload-arch=gfx90a", "-O3", "-std=c++17", f"-I{INCLUDE}", f"-I{OPS}"]
    compiled(source, find_compiler("hipcc"), *flags, *WARNINGS, "-c", HIP_PLATFORM="amd")


def test_each_header_compiles_for_gpus(tmp_path: Path) -> None:
    source = tmp_path / "headers.cu"
    source.write_text("".join(f"#include <opsmith/{header}>\n" for header in GPU_HEADERS))
    compiled(source, find_compiler("nvcc"), "-std=c++17", "-arch=sm_75", f"-I{INCLUDE}", "-c")
