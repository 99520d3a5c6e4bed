"""Defines the constants of torch.utils.cpp_extension that other projects read or change.

Lists are lists: a project that removes a flag from COMMON_NVCC_FLAGS builds without it.
"""

from __future__ import annotations

import sys

from opsmith.spec.extension import NVCC_FLAGS
from opsmith.toolchain.oldest import OLDEST_HOST

__all__ = [
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
]

IS_WINDOWS = sys.platform == "win32"
IS_MACOS = sys.platform == "darwin"
IS_LINUX = sys.platform.startswith("linux")

# opsmith builds on Linux; the names of other systems exist for code that chooses by them.
LIB_EXT = ".so"
EXEC_EXT = ""
CLIB_PREFIX = "lib"
CLIB_EXT = ".so"
SHARED_FLAG = "-shared"
SUBPROCESS_DECODE_ARGS: tuple[str, ...] = ()

COMMON_NVCC_FLAGS = list(NVCC_FLAGS)
COMMON_HIP_FLAGS = ["-D__HIP_PLATFORM_AMD__=1", "-DUSE_ROCM=1", "-DHIPBLAS_V2", "-fPIC"]
COMMON_HIPCC_FLAGS = [
    "-DCUDA_HAS_FP16=1",
    "-D__HIP_NO_HALF_OPERATORS__=1",
    "-D__HIP_NO_HALF_CONVERSIONS__=1",
    "-DHIP_ENABLE_WARP_SYNC_BUILTINS=1",
]

# What opsmith's toolchain accepts.
MINIMUM_GCC_VERSION = (OLDEST_HOST["gcc"], 0, 0)
MINIMUM_CLANG_VERSION = (OLDEST_HOST["clang"], 0, 0)

# The oldest Python of torch 2.13, as Py_LIMITED_API is written.
min_supported_cpython = "0x030A0000"
