"""How the failures of the catalogue are produced, for the recordings and for the tests that produce them anew."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

__all__ = ["CASES", "Case", "produce"]

_PYTORCH_FLAGS = '-std=c++20 -fPIC -I"$TORCH/include" -I"$TORCH/include/torch/csrc/api/include" $PYTHON_INCLUDE'
_PYBIND = "#include <pybind11/pybind11.h>\n"
_LOAD = '"$PY" -c \'import ctypes; ctypes.CDLL("./k.so")\''
_SHARED = "g++ -shared -fPIC k.cpp -o k.so"
_OPERATOR = (
    "import torch\na = torch.library.Library('catalogue_demo', 'DEF')\na.define('twice(Tensor x) -> Tensor')\n"
    "a.impl('twice', lambda x: x + x, 'CPU')\n"
)
_HALF = "#include <cuda_fp16.h>\n__global__ void k(__half* x) { x[0] = x[0] + x[1]; }\n"


@dataclass(frozen=True)
class Case:
    """One failure: the files that it starts from, the shell command that fails, and the programs that this needs."""

    id: str
    command: str
    files: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ("g++",)
    is_slow: bool = False  # over two seconds: it is recorded, and not produced by each run of the tests


def _undefined(id_: str, symbol: str) -> Case:
    """Return the case of a library that asks the loader for a symbol which nothing has."""
    text = f'extern "C" void {symbol}();\nextern "C" void f() {{ {symbol}(); }}\n'
    return Case(id_, f"{_SHARED} && {_LOAD.replace('./k.so', './k.so')}", {"k.cpp": text})


def _needs_library(id_: str, name: str, soname: str) -> Case:
    """Return the case of a library whose own libraries are not there."""
    make = f"g++ -shared -fPIC empty.cpp -Wl,-soname,{soname} -o lib{name}.so"
    text = 'extern "C" void g();\nextern "C" void f() { g(); }\n'
    return Case(
        id_,
        f"{make} && {_SHARED} -L. -l{name} && rm lib{name}.so && {_LOAD}",
        {"k.cpp": text, "empty.cpp": 'extern "C" void g() {}\n'},
    )


def _header(id_: str, header: str, compiler: str = "g++") -> Case:
    return Case(id_, f"{compiler} -c k.cpp", {"k.cpp": f"#include <{header}>\n"}, (compiler,))


def _nvcc(id_: str, text: str, flags: str = "", *, is_slow: bool = False) -> Case:
    return Case(id_, f"nvcc -c k.cu {flags}".strip(), {"k.cu": text}, ("nvcc",), is_slow)


def _python(id_: str, code: str, *, is_slow: bool = False) -> Case:
    return Case(id_, '"$PY" k.py', {"k.py": code}, (), is_slow)


CASES: tuple[Case, ...] = (
    # The machine runs out of resources.
    Case("compiler-killed", "g++ -c k.cpp & until pkill -KILL -P $! cc1plus || ! kill -0 $!; do sleep 0.02; done; wait $!",
         {"k.cpp": "#include <regex>\n#include <map>\n" + "std::regex r{\"a\"};\n" * 200}, ("g++", "pkill")),
    Case("out-of-memory", "ulimit -v 60000; g++ -c k.cpp",
         {"k.cpp": "#include <regex>\nstd::regex r{\"a\"};\n"}),
    Case("disk-full", "g++ k.cpp -o /dev/full", {"k.cpp": "int main() {}\n"}),
    Case("no-compiler", "PATH=/nowhere /bin/sh -c 'g++ -c k.cpp'", {}, ()),
    Case("nvcc-temporary-files", "TMPDIR=/nowhere nvcc -c k.cu", {"k.cu": "__global__ void k() {}\n"}, ("nvcc",)),
    Case("open-files", "ulimit -n 3; g++ -c k.cpp", {"k.cpp": "int a;\n"}),
    Case("file-size-limit", "ulimit -f 1; g++ -c k.cpp", {"k.cpp": "int a[] = {" + "1, " * 2000 + "1};\n"}),
    Case("text-file-busy", "cp \"$(command -v sleep)\" prog; ./prog 0 3>>prog", {}, ()),
    # A library does not load.
    _undefined("torch-symbol-old-strings", "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"),
    _undefined("torch-cuda-symbol", "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb"),
    _undefined(
        "torch-symbol-new-strings",
        "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    ),
    _undefined("torch-too-old", "aoti_torch_mps__int_mm_out"),
    _undefined("torch-without-cuda", "aoti_torch_get_current_cuda_stream"),
    _undefined("torch-symbol", "_ZN3c1013intrusive_old4sizeEv"),
    _undefined("python-symbol", "PyUnicode_NoSuchFunctionOfThisVersion"),
    _undefined("openmp-symbol", "GOMP_parallel"),
    _undefined("cuda-runtime-symbol", "cudaLaunchKernel"),
    _undefined("cuda-driver-symbol", "cuTensorMapEncodeTiled"),
    _undefined("hip-symbol", "hipLaunchKernel"),
    _undefined("undefined-symbol", "_Z6helperi"),
    Case("vtable-symbol", "g++ k.cpp",
         {"k.cpp": "struct Shape { virtual void draw(); };\nint main() { Shape shape; }\n"}),
    _needs_library("torch-library-missing", "c10", "libc10.so"),
    _needs_library("driver-missing", "cuda", "libcuda.so.1"),
    _needs_library("cuda-library-missing", "cudart", "libcudart.so.12"),
    _needs_library("rocm-library-missing", "amdhip64", "libamdhip64.so.77"),
    _needs_library("python-library-missing", "python", "libpython3.99.so.1.0"),
    _needs_library("library-missing", "opencv_core", "libopencv_core.so.4.5"),
    Case("no-init-function", '"$PY" -c "import sysconfig; print(sysconfig.get_config_var(\'EXT_SUFFIX\'))" > suffix && '
         'g++ -shared -fPIC k.cpp -o "k$(cat suffix)" && "$PY" -c "import k"', {"k.cpp": "int a;\n"}),
    Case("wrong-elf-class", f"printf '\\177ELF\\001\\001\\001' > k.so && head -c 200 /dev/zero >> k.so && {_LOAD}", {}, ()),
    Case("invalid-elf", f"printf 'version https://git-lfs.github.com/spec/v1' > k.so && {_LOAD}", {}, ()),
    # A header is missing, or the compiler rejects the code.
    Case("kernel-names", "g++ -c k.cpp", {"k.cpp": "using namespace opsmith;\n"}),
    _header("cpu-torch-header", "c10/cuda/impl/cuda_cmake_macros.h"),
    _header("python-header", "Python.h"),
    _header("pybind11-header", "pybind11/pybind11.h", "clang++"),
    Case("two-pybind11", 'mkdir other && cp -r "$TORCH/include/pybind11" other && g++ -w -c k.cpp -I"$TORCH/include" '
         "$PYTHON_INCLUDE", {"k.cpp": _PYBIND + '#include "other/pybind11/detail/common.h"\n'}, is_slow=True),
    _header("removed-torch-header", "THC/THC.h"),
    _header("cuda-header", "cusparse.h"),
    _header("rocm-header", "rocprim/rocprim.hpp", "clang++"),
    Case("include-next", "g++ -isystem /usr/include -c k.cpp", {"k.cpp": "#include <cstdlib>\n"}),
    Case("standard-too-old", f"g++ {_PYTORCH_FLAGS} -std=c++14 -fsyntax-only k.cpp",
         {"k.cpp": "#include <torch/all.h>\n"}, is_slow=True),
    Case("standard-unknown", "g++ -std=c++99 -c k.cpp || clang++ -std=c++99 -c k.cpp", {"k.cpp": "int a;\n"}),
    Case("deprecated-type", f"g++ {_PYTORCH_FLAGS} -fsyntax-only k.cpp",
         {"k.cpp": "#include <ATen/ATen.h>\nvoid f(at::Tensor x) {\n  at::ScalarType t = x.type();\n}\n"}, is_slow=True),
    Case("removed-torch-macro", "g++ -c k.cpp", {"k.cpp": 'void f(int n) {\n  AT_CHECK(n > 0, "n");\n}\n'}),
    Case("stable-header", f"g++ {_PYTORCH_FLAGS} -DTORCH_STABLE_ONLY -fsyntax-only k.cpp",
         {"k.cpp": "#include <ATen/core/Tensor.h>\n"}),
    # nvcc refuses.
    Case("gcc-too-new", "nvcc -E -Xcompiler -U__GNUC__ -Xcompiler -D__GNUC__=99 k.cu 2>&1 >/dev/null",
         {"k.cu": "__global__ void k() {}\n"}, ("nvcc",)),
    _nvcc("unknown-gpu-arch", "__global__ void k() {}\n", "-gencode=arch=compute_200,code=sm_200"),
    _nvcc("half-operators", _HALF, "-D__CUDA_NO_HALF_OPERATORS__ -D__CUDA_NO_HALF_CONVERSIONS__", is_slow=True),
    _nvcc("extended-lambda", "template <class F> __global__ void k(F f) { f(); }\n"
          "void g() { k<<<1, 1>>>([] __device__() {}); }\n"),
    _nvcc("host-from-device", "float twice(float x) { return 2 * x; }\n"
          "__global__ void k(float* x) { x[0] = twice(x[0]); }\n"),
    _nvcc("nvcc-flag", "__global__ void k() {}\n", "-fopenmp"),
    _nvcc("shared-memory", "__global__ void k(float* x) {\n  __shared__ float s[24576];\n  s[threadIdx.x] = x[0];\n"
          "  __syncthreads();\n  x[1] = s[threadIdx.x + 1];\n}\n"),
    _nvcc("device-link", "__device__ float helper(float);\n__global__ void k(float* x) { x[0] = helper(x[0]); }\n"),
    # The linker fails.
    Case("not-position-independent", "g++ -fno-pic -c part.cpp && g++ -shared part.o -o k.so",
         {"part.cpp": "int counter;\nint next() { return ++counter; }\n"}),
    Case("no-cudart-library", "g++ -shared -fPIC k.cpp -lcudnn_no_such_part", {"k.cpp": "int a;\n"}),
    Case("no-python-library", "g++ -shared -fPIC k.cpp -lpython3.99", {"k.cpp": "int a;\n"}),
    Case("no-library", "g++ -shared -fPIC k.cpp -lno_such_library", {"k.cpp": "int a;\n"}),
    Case("wrong-format", "printf 'not an object' > part.o && g++ -shared part.o -o k.so", {}),
    Case("dso-missing", "g++ -shared -fPIC a.cpp -o liba.so && g++ -shared -fPIC b.cpp -L. -la -o libb.so && "
         "g++ main.cpp -L. -lb -Wl,-rpath-link,.",
         {"a.cpp": "int a() { return 1; }\n", "b.cpp": "int a();\nint b() { return a(); }\n",
          "main.cpp": "int a();\nint b();\nint main() { return a() + b(); }\n"}),
    Case("defined-twice", "g++ -shared -fPIC a.cpp b.cpp",
         {"a.cpp": "int twice(int x) { return 2 * x; }\n", "b.cpp": "int twice(int x) { return x + x; }\n"}),
    Case("torch-reference", "g++ k.cpp -o k",
         {"k.cpp": "namespace c10::detail { void torchCheckFail(const char*, const char*, unsigned, const char*); }\n"
                   'int main() { c10::detail::torchCheckFail("", "", 0, ""); }\n'}),
    Case("python-reference", "g++ k.cpp -o k",
         {"k.cpp": 'extern "C" void* PyList_New(long);\nint main() { PyList_New(0); }\n'}),
    Case("undefined-reference", "g++ k.cpp -o k", {"k.cpp": "int helper(int);\nint main() { return helper(1); }\n"}),
    Case("ninja-twice", '"$(dirname "$PY")/ninja" -n',
         {"build.ninja": "rule cc\n  command = true\nbuild /b/k.o: cc k.cpp\nbuild /b/k.o: cc k.cu\n"}, ()),
    # Operators and classes are registered twice.
    _python("library-twice", "import torch\na = torch.library.Library('catalogue_demo', 'DEF')\n"
            "b = torch.library.Library('catalogue_demo', 'DEF')\n", is_slow=True),
    _python("operator-twice", "import torch\na = torch.library.Library('catalogue_demo', 'DEF')\n"
            "a.define('twice(Tensor x) -> Tensor')\na.define('twice(Tensor x) -> Tensor')\n", is_slow=True),
    Case("class-twice", f'g++ {_PYTORCH_FLAGS} -fvisibility=hidden -shared k.cpp -o k.so && "$PY" load.py',
         {"k.cpp": _PYBIND + "struct Counter {};\nPYBIND11_MODULE(k, m) {\n  pybind11::class_<Counter>(m, \"Counter\");\n"
                   "  pybind11::class_<Counter>(m, \"Counter2\");\n}\n",
          "load.py": "import importlib.util as u\ns = u.spec_from_file_location('k', './k.so')\n"
                     "m = u.module_from_spec(s)\ns.loader.exec_module(m)\n"},
         is_slow=True),
    _python("no-such-operator", "import torch\ntorch.ops.catalogue_demo.twice\n", is_slow=True),
    _python("no-kernel-for-backend", _OPERATOR + "torch.ops.catalogue_demo.twice(torch.ones(1).to_sparse())\n",
            is_slow=True),
    _python("no-fake-kernel", _OPERATOR + "torch.ops.catalogue_demo.twice(torch.ones(1, device='meta'))\n", is_slow=True),
    # A kernel does not run.
    _python("cpu-torch", "import torch\ntorch.ones(1, device='cuda')\n", is_slow=True),
    # torch.utils.cpp_extension and pip fail.
    Case("torch-not-at-build-time", '"$PY" -S -c "import torch"', {}, ()),
    Case("no-setuptools", '"$PY" -S -c "import setuptools"', {}, ()),
    _python("no-gpu-at-build-time", "from torch.utils import cpp_extension\ncpp_extension._get_cuda_arch_flags()\n",
            is_slow=True),
    _python("unknown-arch-name", "import os\nos.environ['TORCH_CUDA_ARCH_LIST'] = '12.0f'\n"
            "from torch.utils import cpp_extension\ncpp_extension._get_cuda_arch_flags()\n", is_slow=True),
    Case("cuda-mismatch", '"$PY" k.py',
         {"k.py": "import torch\nfrom torch.utils import cpp_extension\ntorch.version.cuda = '12.8'\n"
                  "cpp_extension.CUDA_HOME = cpp_extension._find_cuda_home()\n"
                  "cpp_extension._check_cuda_version('g++', cpp_extension.TorchVersion('12.2'))\n"},
         ("nvcc",), is_slow=True),
)  # fmt: skip


def produce(case: Case, folder: Path) -> str:
    """Run a case in a folder and return what was printed, with the places of this machine replaced."""
    for name, text in case.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    spec = find_spec("torch")
    torch = str(Path(spec.origin).parent) if spec and spec.origin else "no-torch"
    import sysconfig

    env = {
        **os.environ,
        "PY": sys.executable,
        "TORCH": torch,
        "PYTHON_INCLUDE": f"-I{sysconfig.get_path('include')}",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": "",
    }
    done = subprocess.run(
        ["bash", "-c", case.command],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
    )
    text = done.stdout.decode(errors="replace")
    environment = str(Path(sysconfig.get_path("purelib")))
    for place, name in ((str(folder), "/build"), (environment, "/site-packages"), (sys.prefix, "/venv")):
        text = text.replace(place, name)
    return text


def is_possible(case: Case) -> bool:
    """Tell whether the programs that a case needs are here."""
    return all(shutil.which(program) for program in case.needs)
