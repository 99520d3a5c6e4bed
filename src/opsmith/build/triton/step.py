"""Plans the compilation of a Triton kernel: the command that makes an object of all its variants."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from opsmith.errors import ToolchainError
from opsmith.toolchain.archs import CudaArch

if TYPE_CHECKING:
    from opsmith.spec.extension import Source
    from opsmith.toolchain import Toolchain

__all__ = ["COMPILER", "triton_archs", "triton_command"]

# The folder of the program that a step runs. It imports nothing of opsmith, so that it runs wherever Triton does.
COMPILER = Path(__file__).resolve().parent / "compile_kernels"

# From this one on, Triton compiles for one architecture alone, and its PTX serves no other.
_FIRST_EXACT = (9, 0)
# The oldest that Triton compiles for.
_OLDEST = (7, 5)


def triton_command(
    source: Source, toolchain: Toolchain, archs: tuple[CudaArch, ...], host: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the command that compiles a kernel's variants; `host` compiles C++, and is told what to compile."""
    assert toolchain.triton is not None, "find_toolchain raises where Triton is asked for and missing"
    images = [word for image in _images(archs) for word in ("--image", image)]
    output = f"{source.name}.o"
    head = (str(toolchain.triton.python), "-B", str(COMPILER), source.name, str(source.users[0]))
    return (*head, *images, "-MF", f"{source.name}.d", "-o", output, "--", *host)


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


def _plain(archs: set[CudaArch]) -> set[CudaArch]:
    return {CudaArch(arch.major, arch.minor, sass=sass) for arch in archs for sass in (True, False)}


def _images(archs: tuple[CudaArch, ...]) -> list[str]:
    """Return what to make of each kernel: "cubin:90", "ptx:80"."""
    made = triton_archs(archs)
    images = [f"cubin:{arch.major}{arch.minor}" for arch in made if arch.sass]
    return images + [f"ptx:{arch.major}{arch.minor}" for arch in made if arch.ptx]
