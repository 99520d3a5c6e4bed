"""Finds torch, the toolkits and the build folders under the names of torch.utils.cpp_extension."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

from opsmith import _env
from opsmith.cpp_extension.homes import assigned_homes
from opsmith.cpp_extension.names import current
from opsmith.errors import MissingToolkitError, ToolchainError
from opsmith.toolchain import find_torch

__all__ = [
    "cuda_home",
    "cudnn_home",
    "get_default_build_root",
    "hip_home",
    "include_paths",
    "is_hip_extension",
    "jit_extension_versioner",
    "library_paths",
    "rocm_home",
    "rocm_version",
    "torch_lib_path",
    "torch_path",
    "windows_cuda_home",
]


def torch_path() -> str:
    """Return torch's folder."""
    return str(find_torch().root)


def torch_lib_path() -> str:
    """Return the folder of torch's libraries."""
    return str(find_torch().lib_dir)


def cuda_home() -> str | None:
    """Return the root of the CUDA toolkit, or None if there is none or torch is built without CUDA.

    Many a setup.py builds its CUDA sources wherever this is not None or `CUDAExtension` does not fail, and a torch
    without CUDA lacks headers for them. Who builds for another machine assigns `cpp_extension.CUDA_HOME`.
    """
    return _find_cuda_home() if find_torch().cuda is not None else None


def cudnn_home() -> str | None:
    """Return the root of cuDNN as the environment names it."""
    return _env.read("CUDNN_HOME") or _env.read("CUDNN_PATH")


def rocm_home() -> str | None:
    """Return the root of ROCm, or None if torch is not built for it."""
    return _find_rocm_home() if find_torch().hip is not None else None


def hip_home() -> str | None:
    """Return ROCm's folder of HIP."""
    home = rocm_home()
    return str(Path(home, "hip")) if home else None


def is_hip_extension() -> bool:
    """Tell whether extensions are built for ROCm."""
    return rocm_home() is not None


def rocm_version() -> tuple[int, ...] | None:
    """Return major and minor version of the ROCm that torch is built for."""
    hip = find_torch().hip
    return tuple(int(part) for part in hip.split(".")[:2]) if hip else None


def windows_cuda_home() -> str | None:
    """Return the root of a CUDA toolkit for Windows."""
    return _env.read("WINDOWS_CUDA_HOME")


@cache
def jit_extension_versioner() -> Any:
    """Return an object of PyTorch's class for the projects that clear it. No build of opsmith asks it."""
    from torch.utils._cpp_extension_versioner import ExtensionVersioner

    return ExtensionVersioner()


def get_default_build_root() -> str:
    """Return where PyTorch keeps its builds, in the user's cache folder.

    opsmith keeps its own in its store (OPSMITH_CACHE_DIR). Some projects remove this folder; that does no harm.
    """
    from platformdirs import user_cache_dir

    return os.path.realpath(user_cache_dir("torch_extensions"))


def include_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list[str]:
    """Return the folders of headers for extensions on "cpu", "cuda" (ROCm too) or "xpu".

    Raises MissingToolkitError, an OSError, if the toolkit of the device is not found.
    """
    torch = find_torch()
    paths = [str(folder) for folder in torch.include_dirs] if torch_include_dirs else []
    if device_type == "cuda" and is_hip_extension():
        paths += [str(torch.root / "include" / "THH"), _join_rocm_home("include")]
    elif device_type == "cuda":
        found = [*_cuda_includes(), _env.read("CUDA_INC_PATH") or ""]
        paths += [path for path in found if path not in ("", "/usr/include")]
        if (cudnn := _chosen("CUDNN_HOME")) is not None:
            paths.append(str(Path(cudnn, "include")))
    elif device_type == "xpu":
        paths += [_join_sycl_home("include"), _join_sycl_home("include", "sycl")]
    return paths


def library_paths(
    device_type: str = "cpu", torch_include_dirs: bool = True, cross_target_platform: str | None = None
) -> list[str]:
    """Return the folders of libraries for extensions on "cpu", "cuda" (ROCm too) or "xpu".

    Raises MissingToolkitError, an OSError, if the toolkit of the device is not found.
    """
    paths = [torch_lib_path()] if torch_include_dirs else []
    if device_type == "cuda" and is_hip_extension():
        paths += [_join_rocm_home("lib"), _join_rocm_home("hip", "lib")]
    elif device_type == "cuda" and cross_target_platform == "windows":
        if (home := _chosen("WINDOWS_CUDA_HOME")) is None:
            raise RuntimeError("WINDOWS_CUDA_HOME is not set: it names the CUDA toolkit to link for Windows with")
        paths.append(str(Path(home, "lib", "x64")))
    elif device_type == "cuda":
        folder = _lib_folder(Path(_join_cuda_home()))
        paths.append(_join_cuda_home(folder))
        if (cudnn := _chosen("CUDNN_HOME")) is not None:
            paths.append(str(Path(cudnn, folder)))
    elif device_type == "xpu":
        paths.append(_join_sycl_home(_lib_folder(Path(_join_sycl_home()))))
    return paths


def _lib_folder(home: Path) -> str:
    return "lib" if (home / "lib").is_dir() and not (home / "lib64").is_dir() else "lib64"


def _cuda_includes() -> list[str]:
    """Return the toolkit's folders of headers; those of Debian lie elsewhere than below the root."""
    from opsmith.toolchain import find_cuda_compiler

    home = _join_cuda_home()
    if Path(home, "include", "cuda_runtime.h").is_file():
        return [str(Path(home, "include"))]
    try:
        with assigned_homes():
            compiler = find_cuda_compiler(fit=find_torch().cuda)
    except ToolchainError:
        return [str(Path(home, "include"))]
    return [str(folder) for folder in compiler.include_dirs]


def _find_cuda_home() -> str | None:
    if chosen := _env.read("CUDA_HOME") or _env.read("CUDA_PATH"):
        return chosen
    from opsmith.toolchain import find_cuda_compiler

    try:
        return str(find_cuda_compiler(fit=find_torch().cuda).root)
    except ToolchainError:
        return None


def _find_rocm_home() -> str | None:
    if chosen := _env.read("ROCM_HOME") or _env.read("ROCM_PATH"):
        return chosen
    from opsmith.toolchain import find_rocm_compiler

    try:
        return str(find_rocm_compiler().root)
    except ToolchainError:
        return None


def _find_sycl_home() -> str | None:
    from opsmith.build.sycl import find_sycl_root

    root = find_sycl_root()
    return str(root) if root else None


def _chosen(name: str) -> str | None:
    """Return a home as the drop-in has it: what was assigned to it, else what is found."""
    value = current(name)
    return None if value is None else os.fspath(value)


def _join_cuda_home(*paths: str) -> str:
    if (home := _chosen("CUDA_HOME")) is None:
        if find_torch().cuda is None:
            raise MissingToolkitError(
                f"torch {find_torch().version} is built without CUDA, so no CUDA extension is built for it. Install a CUDA "
                "build, or, to build for another machine, assign cpp_extension.CUDA_HOME the folder that has bin/nvcc"
            )
        raise MissingToolkitError(
            "No CUDA toolkit was found: CUDA_HOME is not set, and nvcc is neither on PATH nor in /usr/local/cuda nor among "
            "this Python's packages. Set CUDA_HOME to the folder that has bin/nvcc, or `pip install 'opsmith[cuda]'`"
        )
    return str(Path(home, *paths))


def _join_rocm_home(*paths: str) -> str:
    if (home := _chosen("ROCM_HOME")) is None:
        raise MissingToolkitError("ROCm was not found: set ROCM_HOME to the folder that has bin/hipcc")
    return str(Path(home, *paths))


def _join_sycl_home(*paths: str) -> str:
    if (home := _chosen("SYCL_HOME")) is None:
        raise MissingToolkitError(
            "SYCL was not found: no icpx is on PATH, and the package intel-sycl-rt is not installed. Install Intel's "
            "oneAPI DPC++ compiler and source its setvars.sh"
        )
    return str(Path(home, *paths))


def _get_build_directory(name: str, verbose: bool = False) -> str:
    """Return the folder that PyTorch would build an extension in, and make it; opsmith builds in its store."""
    root = _env.read("TORCH_EXTENSIONS_DIR")
    if root is None:
        torch = find_torch()
        gpu = (
            f"rocm{torch.hip.replace('.', '')}"
            if torch.hip
            else f"cu{torch.cuda.replace('.', '')}"
            if torch.cuda
            else ""
        )
        version = f"py{sys.version_info.major}{sys.version_info.minor}{getattr(sys, 'abiflags', '')}"
        root = str(Path(get_default_build_root(), f"{version}_{gpu or 'cpu'}"))
    folder = Path(root, name)
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)
