"""Offers the names of torch.utils.cpp_extension, built by opsmith. Change the import and keep the rest:

    from opsmith.cpp_extension import BuildExtension, CppExtension

    setup(name="lltm", ext_modules=[CppExtension("lltm_cpp", ["lltm.cpp"])], cmdclass={"build_ext": BuildExtension})

Every name is imported from its module when it is first used (`names.py`), so that loading a finished library needs neither
setuptools nor a compiler. What opsmith does not provide comes from PyTorch's own module (`original.py`).
docs/guides/cpp-extension.md lists names, arguments, variables and every difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opsmith.cpp_extension.names import find_name, known_names

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

__getattr__ = find_name


def __dir__() -> list[str]:
    return sorted({*globals(), *known_names()})
