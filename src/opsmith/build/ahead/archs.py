"""Says which architectures the compilers of kernels make code for where some are asked for."""

from __future__ import annotations

from dataclasses import replace

from opsmith.errors import ToolchainError
from opsmith.toolchain.archs import CudaArch, RocmArch

__all__ = ["cute_archs", "triton_archs", "triton_rocm_archs"]

# From this one on, Triton compiles for one architecture alone, and its PTX serves no other.
_FIRST_EXACT = (9, 0)
# The oldest that Triton compiles for, and CuTe DSL.
_OLDEST = (7, 5)
_OLDEST_CUTE = (8, 0)


def triton_archs(archs: tuple[CudaArch, ...]) -> tuple[CudaArch, ...]:
    """Return what Triton makes where some architectures are asked for; raises ToolchainError for one that is too old.

    PTX is for what comes after. Triton's of Hopper and newer serves that architecture alone, so where any is asked for,
    the newest one before Hopper has it.
    """
    for arch in archs:
        if (arch.major, arch.minor) < _OLDEST:
            raise ToolchainError(
                f"CUDA architecture {arch.name} is requested, but Triton compiles for {_OLDEST[0]}.{_OLDEST[1]} and newer."
            )
    exact = {CudaArch(arch.major, arch.minor, "a") for arch in archs if (arch.major, arch.minor) >= _FIRST_EXACT}
    portable = sorted({CudaArch(arch.major, arch.minor, sass=arch.sass) for arch in archs} - _plain(exact))
    if portable and any(arch.ptx for arch in archs):
        portable[-1] = replace(portable[-1], ptx=True)
    return tuple(sorted([*portable, *exact]))


def triton_rocm_archs(archs: tuple[RocmArch, ...]) -> tuple[RocmArch, ...]:
    """Return likewise what Triton makes for AMD's GPUs: code that runs with every feature (xnack, sramecc) on or off.

    Raises ToolchainError for what stands for several GPUs.
    """
    for arch in archs:
        if "generic" in arch.name:
            raise ToolchainError(
                f"ROCm architecture {arch.name} is requested, but Triton compiles for one GPU at a time: name each, such "
                "as 'gfx90a;gfx942'."
            )
    return tuple(RocmArch(name) for name in sorted({arch.name.partition(":")[0] for arch in archs}))


def cute_archs(archs: tuple[CudaArch, ...]) -> tuple[CudaArch, ...]:
    """Return what CuTe DSL makes where some architectures are asked for: machine code, which it keeps no PTX beside.

    That of Hopper and newer has the instructions of exactly this architecture, which most kernels are written for. Raises
    ToolchainError for an architecture that is too old, and where only PTX is asked for.
    """
    for arch in archs:
        if (arch.major, arch.minor) < _OLDEST_CUTE:
            raise ToolchainError(
                f"CUDA architecture {arch.name} is requested, but CuTe DSL compiles for "
                f"{_OLDEST_CUTE[0]}.{_OLDEST_CUTE[1]} and newer."
            )
    made = {
        CudaArch(arch.major, arch.minor, arch.suffix or ("a" if (arch.major, arch.minor) >= _FIRST_EXACT else ""))
        for arch in archs
        if arch.sass
    }
    if not made:
        raise ToolchainError(
            "Only PTX is requested, and CuTe DSL makes machine code: name an architecture without +PTX."
        )
    return tuple(sorted(made))


def _plain(archs: set[CudaArch]) -> set[CudaArch]:
    return {CudaArch(arch.major, arch.minor, sass=sass) for arch in archs for sass in (True, False)}
