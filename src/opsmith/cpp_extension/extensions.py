"""Makes setuptools extensions for C++, CUDA and SYCL, as a setup.py lists them.

Each is a plain setuptools.Extension, whose lists a setup.py may read and change until it is built. The caller's own
lists are never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any

import setuptools

from opsmith.cpp_extension.names import current
from opsmith.cpp_extension.paths import include_paths, library_paths
from opsmith.errors import ArgumentTypeError

__all__ = ["CUDAExtension", "CppExtension", "SyclExtension"]

Sources = Sequence[str | PathLike[str]]

# The order of setuptools.Extension's own parameters after the name and the sources.
_POSITIONAL = (
    "include_dirs",
    "define_macros",
    "undef_macros",
    "library_dirs",
    "libraries",
    "runtime_library_dirs",
    "extra_objects",
    "extra_compile_args",
    "extra_link_args",
    "export_symbols",
    "swig_opts",
    "depends",
    "language",
    "optional",
)

# nvcc links device code with optimisation from CUDA 11.2 on; every torch that opsmith serves has a newer one.
_DEVICE_LINK = ("-dlink", "-dlto")


# The names are PyTorch's, and there too they are functions that look like classes.
def CppExtension(name: str, sources: Sources, *args: Any, **kwargs: Any) -> setuptools.Extension:  # noqa: N802
    """Return a setuptools extension of C++ files over torch's C++ API. It takes what setuptools.Extension takes.

    `extra_compile_args` is a list, or {"cxx": [...]}; opsmith's -O3 comes first, so -O0 there wins. With
    `py_limited_api` one file serves every Python from 3.10 on, and libtorch_python is not linked. Raises
    ArgumentTypeError.
    """
    return _extension(name, sources, args, kwargs, include_paths(), library_paths(), ["c10", "torch", "torch_cpu"])


def CUDAExtension(name: str, sources: Sources, *args: Any, **kwargs: Any) -> setuptools.Extension:  # noqa: N802
    """Return a setuptools extension of C++ and CUDA files; the C++ files too may call the CUDA runtime.

    `extra_compile_args` is a list for all compilers, or {"cxx": [...], "nvcc": [...], "nvcc_dlink": [...]}. `dlink`, or
    a list of `dlink_libraries`, links device code in a step of its own, for sources that are compiled with -rdc=true.
    Architectures come from OPSMITH_CUDA_ARCHS or TORCH_CUDA_ARCH_LIST, else from the GPUs of this machine, unless the
    flags for nvcc name some.

    Raises OSError if there is no CUDA toolkit, and ArgumentTypeError.
    """
    given = _by_name(name, args, kwargs)
    dlink_libraries = list(given.pop("dlink_libraries", None) or ())
    libraries = ["c10", "torch", "torch_cpu"]
    libraries += ["amdhip64", "c10_hip", "torch_hip"] if _is_hip() else ["cudart", "c10_cuda", "torch_cuda"]
    folders = library_paths("cuda")
    if given.pop("dlink", False) or dlink_libraries:
        own = [f"-L{folder}" for folder in [*map(fspath, given.get("library_dirs") or ()), *folders]]
        given["extra_compile_args"] = _with_dlink(
            given.get("extra_compile_args"), [*_DEVICE_LINK, *own, *(f"-l{library}" for library in dlink_libraries)]
        )
    return _extension(name, sources, (), given, include_paths("cuda"), folders, libraries)


def SyclExtension(name: str, sources: Sources, *args: Any, **kwargs: Any) -> setuptools.Extension:  # noqa: N802
    """Return a setuptools extension of C++ and SYCL files (.sycl) for Intel GPUs.

    `extra_compile_args` is a list, or {"cxx": [...], "sycl": [...]}. Devices come from TORCH_XPU_ARCH_LIST. Raises
    OSError where SYCL is not found, and ArgumentTypeError.
    """
    libraries = ["c10", "c10_xpu", "torch", "torch_cpu", "torch_xpu", "sycl"]
    return _extension(name, sources, args, kwargs, include_paths("xpu"), library_paths("xpu"), libraries)


def _extension(
    name: str,
    sources: Sources,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    includes: list[str],
    folders: list[str],
    libraries: list[str],
) -> setuptools.Extension:
    given = _by_name(name, args, kwargs)
    python = [] if given.get("py_limited_api") else ["torch_python"]
    given["include_dirs"] = [*_texts(name, given, "include_dirs"), *includes]
    given["library_dirs"] = [*_texts(name, given, "library_dirs"), *folders]
    given["libraries"] = [*_texts(name, given, "libraries"), *libraries, *python]
    given["language"] = "c++"
    if isinstance(sources, str | PathLike):
        raise ArgumentTypeError(f"{name}: sources must be a list of paths; got {sources!r}")
    return setuptools.Extension(name, [fspath(source) for source in sources], **given)


def _by_name(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    if len(args) > len(_POSITIONAL):
        raise ArgumentTypeError(f"{name}: {len(args)} positional arguments after the sources, of {len(_POSITIONAL)}")
    given = dict(zip(_POSITIONAL, args, strict=False))
    if twice := sorted(given.keys() & kwargs.keys()):
        raise ArgumentTypeError(f"{name}: {twice[0]} is given twice, by position and by name")
    return {**given, **kwargs}


def _texts(name: str, given: dict[str, Any], argument: str) -> list[str]:
    values = given.get(argument) or []
    if isinstance(values, str | PathLike):
        raise ArgumentTypeError(f"{name}: {argument} must be a list; got {values!r}")
    return [fspath(value) for value in values]


def _with_dlink(arguments: Any, flags: list[str]) -> dict[str, list[str]]:
    by_compiler = dict(arguments) if isinstance(arguments, dict) else {"cxx": list(arguments or ())}
    if not isinstance(arguments, dict) and arguments:
        by_compiler["nvcc"] = list(arguments)
    by_compiler["nvcc_dlink"] = [*by_compiler.get("nvcc_dlink", ()), *flags]
    return by_compiler


def _is_hip() -> bool:
    return bool(current("IS_HIP_EXTENSION"))
