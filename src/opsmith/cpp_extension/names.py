"""Finds the drop-in's names: each has a home in a module of this package, or comes from PyTorch's own module.

The package's attributes are the user's to assign (`cpp_extension.COMMON_NVCC_FLAGS = [...]`). Modules of the package read
such names through `current`, so that an assignment takes effect, and need not import the package that imports them.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from opsmith.toolchain.torch_install import require_torch

__all__ = ["DROP_IN", "assigned_value", "current", "find_name", "known_names"]

DROP_IN = "opsmith.cpp_extension"

# The names of each module.
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


def current(name: str) -> Any:
    """Return what a name of the drop-in stands for now: what the user assigned to it, else what `find_name` finds."""
    return getattr(sys.modules[DROP_IN], name)


def assigned_value(name: str, default: Any = None) -> Any:
    """Return what the user assigned to a name of the drop-in, or the default."""
    return vars(sys.modules[DROP_IN]).get(name, default)


def find_name(name: str) -> Any:
    """Return the drop-in's own object of this name, or PyTorch's; raises AttributeError if there is neither."""
    if name.startswith("__"):
        raise AttributeError(f"module {DROP_IN!r} has no attribute {name!r}")
    require_torch()
    if (home := _HOME_OF.get(name)) is not None:
        return getattr(importlib.import_module(f"{DROP_IN}.{home}"), name)
    if (function := _LOOKED_UP.get(name)) is not None:
        return getattr(importlib.import_module(f"{DROP_IN}.paths"), function)()
    from opsmith.cpp_extension.original import original_name

    return original_name(name)


def known_names() -> frozenset[str]:
    """Return the names that opsmith provides itself."""
    return frozenset({*_HOME_OF, *_LOOKED_UP})
