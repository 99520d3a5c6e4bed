"""Lists headers that a compiler does not find, or finds twice or in the wrong order, and why."""

from __future__ import annotations

from opsmith.catalogue.entry import Entry

__all__ = ["ENTRIES"]


def _no_header(header: str) -> str:
    """Return the pattern of a header that is not there, as gcc, clang and nvcc say it."""
    return (
        r"error: (?=cannot open source file |[^\n]*(?:: No such file or directory| file not found))"
        rf"(?:cannot open source file )?['\"]?(?P<header>{header})['\"]?(?:: No such file or directory| file not found|$)"
    )


_NO_HEADER = ("cannot open source file ", ": No such file or directory", " file not found")

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "cpu-torch-header",
        "A CPU build of torch has no CUDA headers",
        _no_header(r"c10/cuda/impl/cuda_cmake_macros\.h"),
        (
            "This torch is built without CUDA and does not ship {header}, which its other CUDA headers include.",
            "The installed torch is {cpu_torch}.",
        ),
        (
            "Build against a CUDA build of torch (https://pytorch.org/get-started/locally), or do not include headers "
            "of c10/cuda and ATen/cuda.",
        ),
        "CUDAMacros.h:8:10: fatal error: c10/cuda/impl/cuda_cmake_macros.h: No such file or directory",
        words=_NO_HEADER,
    ),
    Entry(
        "python-header",
        "Python's headers are not installed",
        _no_header(r"Python\.h|pyconfig\.h|patchlevel\.h"),
        ("Python's headers are a separate package, which is not installed, or belongs to another Python.",),
        (
            "`apt-get install python3-dev` or `dnf install python3-devel`, with the version if Python is not the "
            "system's (python3.12-dev). A Python from uv or conda has them.",
            "For the Python that runs here: `apt-get install python{python}-dev` or `conda install python={python}`.",
        ),
        "k.cpp:1:10: fatal error: Python.h: No such file or directory",
        words=_NO_HEADER,
    ),
    Entry(
        "pybind11-header",
        "pybind11 is not found",
        _no_header(r"pybind11/\S+?"),
        (
            "The file includes {header} without torch's include folders, which have a copy, or needs a part that this "
            "copy lacks.",
        ),
        (
            "Build it as an extension of torch (`torch/extension.h` brings pybind11), or `pip install pybind11` and "
            "add `$(python -m pybind11 --includes)` to the flags.",
        ),
        "k.cpp:1:10: fatal error: pybind11/pybind11.h: No such file or directory",
        words=_NO_HEADER,
    ),
    Entry(
        "two-pybind11",
        "Two copies of pybind11 conflict",
        r"pybind11/\S+:\d+:\d+: error: (?:redefinition of|conflicting declaration|ambiguating new declaration|multiple "
        r"definition of|reference to '\w+' is ambiguous)",
        (
            "The file includes two copies of pybind11: torch's, and another in an include folder (a "
            "submodule, /usr/include, or the PyPI package).",
        ),
        (
            "Remove the other copy from the include folders, so that torch's is used. If it is apt's: `apt-get "
            "remove pybind11-dev`.",
        ),
        "/b/pybind11/detail/common.h:300:7: error: redefinition of 'class pybind11::cast_error'",
        words=("pybind11/",),
    ),
    Entry(
        "removed-torch-header",
        "A header that PyTorch has removed",
        _no_header(r"THC/\S+?|TH/\S+?|THCUNN/\S+?|torch/csrc/utils/variadic\.h"),
        ("{header} was removed from PyTorch (the TH and THC headers in 1.11), and the sources still include it.",),
        (
            "Look for a newer version of the project. In the sources: `C10_CUDA_CHECK` of c10/cuda/CUDAException.h "
            "for THCudaCheck, `at::cuda::getCurrentCUDAStream()` for what THCState was for, `at::ceil_div` of "
            "ATen/ceil_div.h for THCCeilDiv.",
        ),
        "k.cu:3:10: fatal error: THC/THC.h: No such file or directory",
        words=_NO_HEADER,
    ),
    Entry(
        "cuda-header",
        "A CUDA header from a separate package",
        _no_header(
            r"cublas\w*\.h|nvblas\w*\.h|cudnn\w*\.h|cufft\w*\.h|curand\w*\.h|cusolver\w*\.h|cusparse\w*\.h|nccl\w*\.h|"
            r"nvshmem\w*\.h|nvtx3/\S+?|nvToolsExt\w*\.h|nvrtc\w*\.h|nvJitLink\w*\.h|nvml\.h|nvjpeg\w*\.h|npp\w*\.h"
            r"|cufile\.h|"
            r"cupti\w*\.h|cuda_profiler_api\.h|cudaProfiler\.h|thrust/\S+?|cub/\S+?|cuda/std/\S+?|nv/target|crt/\S+?|"
            r"cuda_runtime\w*\.h|cuda_fp\w+\.h(?:pp)?|cuda_bf16\.h(?:pp)?|cooperative_groups\S*?\.h|cuda\.h|"
            r"device_launch_parameters\.h|driver_types\.h|vector_types\.h"
        ),
        ("The CUDA toolkit in use does not have {header}, which is packaged separately.",),
        (
            "`pip install {package}` adds it, for an nvcc of the system too: opsmith finds it in the same environment. "
            "For a C++ file, `with_cuda=True` or a CUDAExtension adds the toolkit's folder.",
        ),
        "/torch/include/ATen/cuda/CUDAContextLight.h:7:10: fatal error: cusparse.h: No such file or directory",
        words=_NO_HEADER,
    ),
    Entry(
        "rocm-header",
        "ROCm's headers are not installed",
        _no_header(
            r"hip/\S+?|hipblas\S*?|hipsparse\S*?|hiprand\S*?|rocblas\S*?|rocrand\S*?|hipcub/\S+?|rocprim/\S+?|rccl\S*?"
        ),
        ("{header} belongs to ROCm and is a separate package in most distributions.",),
        (
            "Install it, on Debian and Ubuntu for example with `apt-get install libamdhip64-dev` (hip/), "
            "`hipblas-dev`, `hipsparse-dev`, or set ROCM_PATH to a complete ROCm.",
        ),
        "k.hip:1:10: fatal error: 'hip/hip_runtime.h' file not found",
        words=_NO_HEADER,
    ),
    Entry(
        "include-next",
        "/usr/include is passed as -isystem",
        r"(?:cstdlib|cmath|stdlib\.h|math\.h):\d+:\d+: fatal error: '?(?P<header>stdlib|math)\.h'?"
        r"(?:: No such file or directory| file not found)",
        (
            "-isystem /usr/include (or CPATH, CPLUS_INCLUDE_PATH with it) changes the search order, so the C++ "
            "library's header does not find the C library's behind it.",
        ),
        (
            "Remove /usr/include from the include folders and from CPATH, C_INCLUDE_PATH and CPLUS_INCLUDE_PATH "
            "(CUDA_HOME=/usr has the same effect with torch: `unset CUDA_HOME`).",
        ),
        "/usr/include/c++/12/cstdlib:75:15: fatal error: stdlib.h: No such file or directory",
        words=(
            "No such file or directory",
            "file not found",
        ),
    ),
    Entry(
        "openmp-header",
        "The compiler has no OpenMP",
        _no_header(r"omp\.h"),
        ("OpenMP's header comes with gcc, but not with clang.",),
        ("`apt-get install libomp-dev` (macOS: `brew install libomp`), or compile with g++: `export CXX=g++`.",),
        "k.cpp:1:10: fatal error: 'omp.h' file not found",
        words=_NO_HEADER,
    ),
)
