"""Plans the compilation of a kernel ahead: the command that makes an object of all its variants."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from opsmith.errors import ToolchainError
from opsmith.toolchain.archs import CudaArch

if TYPE_CHECKING:
    from opsmith.spec.extension import Extension, Source
    from opsmith.toolchain import NvrtcInstall, Toolchain

__all__ = ["COMPILER", "ahead_command", "cute_archs", "triton_archs"]

# The folder of the program that a step runs. It imports nothing of opsmith, so that it runs wherever Triton does.
COMPILER = Path(__file__).resolve().parent / "compile_kernels"
_HEADERS = Path(__file__).resolve().parents[2] / "include"

# From this one on, Triton compiles for one architecture alone, and its PTX serves no other.
_FIRST_EXACT = (9, 0)
# The oldest that Triton compiles for, and CuTe DSL.
_OLDEST = (7, 5)
_OLDEST_CUTE = (8, 0)


def ahead_command(
    source: Source, extension: Extension, toolchain: Toolchain, archs: tuple[CudaArch, ...], host: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the command that compiles a kernel's variants; `host` compiles C++, and is told what to compile."""
    if source.language == "triton":
        assert toolchain.triton is not None, "find_toolchain raises where Triton is asked for and missing"
        python, images = toolchain.triton.python, _triton_images(archs)
    elif source.language == "cute":
        assert toolchain.cute is not None, "find_toolchain raises where CuTe DSL is asked for and missing"
        python, images = toolchain.cute.python, _images(cute_archs(archs))
    else:
        assert toolchain.nvrtc is not None, "find_toolchain raises where NVRTC is asked for and missing"
        python, images = toolchain.nvrtc.python, _images(archs)
    head = (str(python), "-B", str(COMPILER), "--by", source.language, source.name, str(source.users[0]))
    options = _nvrtc_options(extension, toolchain.nvrtc) if source.language == "nvrtc" and toolchain.nvrtc else ()
    words = [word for image in images for word in ("--image", image)]
    return (*head, *options, *words, "-MF", f"{source.name}.d", "-o", f"{source.name}.o", "--", *host)


def _nvrtc_options(extension: Extension, nvrtc: NvrtcInstall) -> tuple[str, ...]:
    """Return where NVRTC is, and the folders of headers: the user's, opsmith's and CUDA's."""
    words = ["--library", str(nvrtc.library), "--opsmith", str(_HEADERS)]
    words += [word for folder in extension.include_dirs for word in ("--include", str(folder))]
    return (*words, *(word for folder in nvrtc.includes for word in ("--cuda", str(folder))))


def _images(archs: tuple[CudaArch, ...]) -> list[str]:
    """Return what to make of each kernel: "cubin:90a", "ptx:80"."""
    images = [f"cubin:{arch.number}" for arch in archs if arch.sass]
    return images + [f"ptx:{arch.number}" for arch in archs if arch.ptx]


def _triton_images(archs: tuple[CudaArch, ...]) -> list[str]:
    """Return likewise what Triton makes: it takes numbers alone, and adds the suffix of 9.0a by itself."""
    return _images(tuple(replace(arch, suffix="") for arch in triton_archs(archs)))


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
