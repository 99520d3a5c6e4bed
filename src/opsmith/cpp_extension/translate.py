"""Translates a setuptools.Extension, with the command that builds it, into existing sources."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from os import fspath
from pathlib import Path
from typing import Any

from opsmith import _env
from opsmith.build.existing import assemble_sources, file_sources
from opsmith.cpp_extension.constants import min_supported_cpython
from opsmith.cpp_extension.names import assigned_value, current
from opsmith.errors import ArgumentError
from opsmith.spec.extension import ExistingSources
from opsmith.toolchain import find_torch

__all__ = ["is_ours", "needs_gpu", "translate"]

_COMPILERS = frozenset({"cxx", "nvcc", "sycl", "nvcc_dlink"})
_DEVICE_FILES = frozenset({".cu", ".cuh", ".hip", ".sycl"})
_TORCH_LIBRARIES = frozenset({"c10", "torch", "torch_cpu", "torch_cuda", "torch_python"})
_GPU_LIBRARIES = frozenset({"cudart", "c10_cuda", "torch_cuda", "amdhip64", "c10_hip", "torch_hip"})


def is_ours(ext: Any) -> bool:
    """Tell whether opsmith builds an extension: one that uses torch, or that setuptools has no compiler for.

    PyTorch's BuildExtension compiles each extension of a setup as C++ for torch. What has nothing to do with it, such as
    plain C, setuptools builds better.
    """
    if isinstance(ext.extra_compile_args, dict) or any(Path(source).suffix in _DEVICE_FILES for source in ext.sources):
        return True
    root = find_torch().root
    uses_headers = any(Path(folder).absolute().is_relative_to(root) for folder in ext.include_dirs or ())
    return uses_headers or not _TORCH_LIBRARIES.isdisjoint(ext.libraries or ())


def needs_gpu(ext: Any) -> bool:
    """Tell whether an extension has GPU sources, or C++ files that use the GPU's toolkit."""
    has_kernels = any(Path(source).suffix in {".cu", ".cuh", ".hip"} for source in ext.sources)
    return has_kernels or not _GPU_LIBRARIES.isdisjoint(ext.libraries or ())


def translate(ext: Any, sources: Sequence[str], library: str, command: Any) -> ExistingSources:
    """Return the existing sources of an extension. `command` is build_ext, whose options count as setuptools says.

    Relative paths start at the current folder. Raises ArgumentError for what cannot be built.
    """
    cxx, nvcc, sycl, dlink = _by_compiler(ext)
    compiler = command.compiler
    macros = _macros([*getattr(compiler, "macros", ()), *ext.define_macros], ext.undef_macros)
    if command.debug:
        cxx, nvcc = ["-g", *cxx], ["-g", *nvcc]
    return assemble_sources(
        ext.name,
        file_sources(Path(source) for source in sources),
        library=library,
        include_dirs=_absolute([*ext.include_dirs, *getattr(compiler, "include_dirs", ())]),
        cxx_flags=(*macros, *_variables("CPPFLAGS", "CFLAGS", "CXXFLAGS"), *cxx),
        gpu_flags=(*macros, *nvcc),
        sycl_flags=tuple(sycl),
        dlink_flags=None if dlink is None else tuple(dlink),
        link_flags=tuple(_link_flags(ext, compiler)),
        library_dirs=_absolute([*ext.library_dirs, *getattr(compiler, "library_dirs", ())]),
        libraries=(*ext.libraries, *getattr(compiler, "libraries", ())),
        nvcc_flags=tuple(current("COMMON_NVCC_FLAGS")),
        limited_api=_limited_api(ext),
        with_sycl="sycl" in (ext.libraries or ()),
    )


def _limited_api(ext: Any) -> str | None:
    if not getattr(ext, "py_limited_api", False):
        return None
    return str(assigned_value("min_supported_cpython", min_supported_cpython))


def _by_compiler(ext: Any) -> tuple[list[str], list[str], list[str], list[str] | None]:
    arguments = ext.extra_compile_args
    if not isinstance(arguments, dict):
        everyone = list(arguments or ())
        return everyone, everyone, everyone, None
    if unknown := sorted(arguments.keys() - _COMPILERS):
        raise ArgumentError(
            f"{ext.name}: extra_compile_args has {unknown[0]!r}; there is {', '.join(sorted(_COMPILERS))}"
        )
    cxx, nvcc, sycl = (list(arguments.get(name) or ()) for name in ("cxx", "nvcc", "sycl"))
    dlink = arguments.get("nvcc_dlink")
    return cxx, nvcc, sycl, None if dlink is None else list(dlink)


def _macros(defined: Iterable[tuple[str, ...]], undefined: Iterable[str]) -> list[str]:
    words = []
    for name, *value in defined:
        if not value:
            words.append(f"-U{name}")  # distutils: a macro without a value is one to undefine
        else:
            words.append(f"-D{name}" if value[0] is None else f"-D{name}={value[0]}")
    return [*words, *(f"-U{name}" for name in undefined)]


def _absolute(folders: Iterable[Any]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(Path(fspath(folder)).absolute() for folder in folders if folder))


def _link_flags(ext: Any, compiler: Any) -> list[str]:
    objects = [*ext.extra_objects, *(getattr(compiler, "objects", None) or ())]
    rpaths = [*ext.runtime_library_dirs, *(getattr(compiler, "runtime_library_dirs", None) or ())]
    words = [str(Path(item).absolute()) for item in objects]
    words += [f"-Wl,-rpath,{folder}" for folder in rpaths]
    return [*words, *_variables("LDFLAGS"), *ext.extra_link_args]


def _variables(*names: str) -> list[str]:
    return [word for name in names for word in shlex.split(_env.read(name) or "")]
