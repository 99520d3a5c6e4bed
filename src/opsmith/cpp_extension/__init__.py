"""What torch.utils.cpp_extension offers, built by opsmith. Change the import and keep the rest:

    from opsmith.cpp_extension import BuildExtension, CppExtension

    setup(name="lltm", ext_modules=[CppExtension("lltm_cpp", ["lltm.cpp"])], cmdclass={"build_ext": BuildExtension})

Every name has a home among the modules beside this one and is imported when it is first used, so that loading a finished
library needs neither setuptools nor a compiler. What opsmith does not provide comes from PyTorch's own module
(`original.py`). docs/cpp-extension.md lists names, arguments, variables and every difference.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opsmith.cpp_extension.command import BuildExtension
    from opsmith.cpp_extension.compilers import (
        check_compiler_is_gcc,
        check_compiler_ok_for_platform,
        get_compiler_abi_compatibility_and_version,
        get_cxx_compiler,
        is_ninja_available,
        verify_ninja_availability,
    )
    from opsmith.cpp_extension.extensions import CppExtension, CUDAExtension, SyclExtension
    from opsmith.cpp_extension.jit import load, load_inline, remove_extension_h_precompiler_headers
    from opsmith.cpp_extension.paths import get_default_build_root, include_paths, library_paths

__all__ = [
    "BuildExtension",
    "CUDAExtension",
    "CppExtension",
    "SyclExtension",
    "check_compiler_is_gcc",
    "check_compiler_ok_for_platform",
    "get_compiler_abi_compatibility_and_version",
    "get_cxx_compiler",
    "get_default_build_root",
    "include_paths",
    "is_ninja_available",
    "library_paths",
    "load",
    "load_inline",
    "remove_extension_h_precompiler_headers",
    "verify_ninja_availability",
]

# Where each name lives. What one assigns to this module (`cpp_extension.COMMON_NVCC_FLAGS = [...]`) hides these, and
# opsmith itself looks names up here, so that an assignment takes effect.
_HOMES = {
    "command": ("BuildExtension",),
    "compilers": (
        "check_compiler_is_gcc",
        "check_compiler_ok_for_platform",
        "get_compiler_abi_compatibility_and_version",
        "get_cxx_compiler",
        "is_ninja_available",
        "verify_ninja_availability",
        "_accepted_compilers_for_platform",
        "_check_cuda_version",
        "_get_num_workers",
        "_is_binary_build",
    ),
    "constants": (
        "CLIB_EXT",
        "CLIB_PREFIX",
        "COMMON_HIPCC_FLAGS",
        "COMMON_HIP_FLAGS",
        "COMMON_NVCC_FLAGS",
        "EXEC_EXT",
        "IS_LINUX",
        "IS_MACOS",
        "IS_WINDOWS",
        "LIB_EXT",
        "MINIMUM_CLANG_VERSION",
        "MINIMUM_GCC_VERSION",
        "SHARED_FLAG",
        "SUBPROCESS_DECODE_ARGS",
        "min_supported_cpython",
    ),
    "extensions": ("CUDAExtension", "CppExtension", "SyclExtension"),
    "flags": (
        "_get_cuda_arch_flags",
        "_get_pybind11_abi_build_flags",
        "_get_rocm_arch_flags",
        "_get_sycl_arch_list",
        "_is_cuda_file",
        "_is_sycl_file",
    ),
    "jit": (
        "_import_module_from_library",
        "_jit_compile",
        "load",
        "load_inline",
        "remove_extension_h_precompiler_headers",
    ),
    "paths": (
        "_find_cuda_home",
        "_find_rocm_home",
        "_find_sycl_home",
        "_get_build_directory",
        "_join_cuda_home",
        "_join_rocm_home",
        "_join_sycl_home",
        "get_default_build_root",
        "include_paths",
        "library_paths",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

# Looked up each time, so that a variable that is set after the import counts: the function in `paths` that finds each.
_LOOKED_UP = {
    "CUDA_HOME": "cuda_home",
    "CUDNN_HOME": "cudnn_home",
    "HIP_HOME": "hip_home",
    "IS_HIP_EXTENSION": "is_hip_extension",
    "JIT_EXTENSION_VERSIONER": "jit_extension_versioner",
    "ROCM_HOME": "rocm_home",
    "ROCM_VERSION": "rocm_version",
    "SYCL_HOME": "_find_sycl_home",
    "TORCH_LIB_PATH": "torch_lib_path",
    "WINDOWS_CUDA_HOME": "windows_cuda_home",
    "_TORCH_PATH": "torch_path",
}


def __getattr__(name: str) -> Any:
    if (home := _HOME_OF.get(name)) is not None:
        return getattr(importlib.import_module(f"opsmith.cpp_extension.{home}"), name)
    if (function := _LOOKED_UP.get(name)) is not None:
        return getattr(importlib.import_module("opsmith.cpp_extension.paths"), function)()
    if not name.startswith("__"):
        from opsmith.cpp_extension.original import original_name

        return original_name(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF, *_LOOKED_UP})
