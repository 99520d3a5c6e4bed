"""Computes flags for GPU architectures, and tells which compiler a file is for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from opsmith.cpp_extension.names import current
from opsmith.errors import ToolchainError

__all__ = ["UnknownArchError"]


class UnknownArchError(ToolchainError, ValueError):
    """An architecture in a list has no meaning; PyTorch raises ValueError."""


def _get_cuda_arch_flags(cflags: Sequence[str] | None = None) -> list[str]:
    """Return nvcc's -gencode flags: none where `cflags` choose architectures, else those of the environment or the GPU.

    OPSMITH_CUDA_ARCHS and TORCH_CUDA_ARCH_LIST are read, in this order. On a machine without a GPU the default of
    opsmith's builds is taken. Raises UnknownArchError.
    """
    from opsmith.build.plan_existing import names_cuda_archs
    from opsmith.build.target import choose_cuda_archs

    if cflags is not None and names_cuda_archs(cflags):
        return []
    try:
        archs = choose_cuda_archs(None, supported=_supported())
    except ToolchainError as error:
        raise UnknownArchError(str(error)) from error
    return sorted({flag for arch in archs for flag in arch.gencode})


def _supported() -> tuple[str, ...]:
    from opsmith.cpp_extension.homes import assigned_homes
    from opsmith.toolchain import find_cuda_compiler, find_torch

    try:
        with assigned_homes():
            return find_cuda_compiler(fit=find_torch().cuda).archs
    except ToolchainError:
        return ()  # flags can be asked for on a machine that has no nvcc


def _get_rocm_arch_flags(cflags: Sequence[str] | None = None) -> list[str]:
    """Return hipcc's --offload-arch flags, unless `cflags` have some."""
    from opsmith.build.target import choose_rocm_archs

    given = list(cflags or ())
    rdc = [] if any("gpu-rdc" in flag for flag in given) else ["-fno-gpu-rdc"]
    if any("amdgpu-target" in flag or "offload-arch" in flag for flag in given):
        return rdc
    return [*(flag for arch in choose_rocm_archs(None) for flag in arch.flags), *rdc]


def _get_sycl_arch_list() -> str:
    from opsmith.build.sycl import sycl_archs

    return ",".join(sycl_archs())


def _get_pybind11_abi_build_flags() -> list[str]:
    return []  # pybind11 has looked after its own binary interface since 2.11


def _is_cuda_file(path: str) -> bool:

    return Path(path).suffix in {".cu", ".cuh", *([".hip"] if current("IS_HIP_EXTENSION") else [])}


def _is_sycl_file(path: str) -> bool:
    return Path(path).suffix == ".sycl"
