"""Plans the compilation of a kernel ahead: the command that makes an object of all its variants."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from opsmith.build.ahead.archs import cute_archs, triton_archs, triton_rocm_archs

if TYPE_CHECKING:
    from opsmith.spec.extension import Extension, Source
    from opsmith.toolchain import CudaArch, NvrtcInstall, RocmArch, Toolchain

__all__ = ["COMPILER", "ahead_command"]

# The folder of the program that a step runs. It imports nothing of opsmith, so that it runs wherever Triton does.
COMPILER = Path(__file__).resolve().parent / "compile_kernels"
_HEADERS = Path(__file__).resolve().parents[2] / "include"


def ahead_command(
    source: Source,
    extension: Extension,
    toolchain: Toolchain,
    cuda: tuple[CudaArch, ...],
    rocm: tuple[RocmArch, ...],
    host: tuple[str, ...],
) -> tuple[str, ...]:
    """Return the command that compiles a kernel's variants for NVIDIA's architectures or AMD's.

    `host` compiles C++, and is told what to compile.
    """
    if source.language == "triton":
        assert toolchain.triton is not None, "find_toolchain raises where Triton is asked for and missing"
        python, images = toolchain.triton.python, _triton_images(cuda, rocm)
    elif source.language == "cute":
        assert toolchain.cute is not None, "find_toolchain raises where CuTe DSL is asked for and missing"
        python, images = toolchain.cute.python, _images(cute_archs(cuda))
    else:
        assert toolchain.nvrtc is not None, "find_toolchain raises where NVRTC is asked for and missing"
        python, images = toolchain.nvrtc.python, _images(cuda)
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
    """Return what to make of each kernel for NVIDIA's GPUs: "cubin:90a", "ptx:80"."""
    images = [f"cubin:{arch.number}" for arch in archs if arch.sass]
    return images + [f"ptx:{arch.number}" for arch in archs if arch.ptx]


def _triton_images(cuda: tuple[CudaArch, ...], rocm: tuple[RocmArch, ...]) -> list[str]:
    """Return likewise what Triton makes, for AMD's GPUs "hsaco:gfx90a".

    Of NVIDIA's it takes numbers alone, and adds the suffix of 9.0a by itself.
    """
    images = _images(tuple(replace(arch, suffix="") for arch in triton_archs(cuda)))
    return images + [f"hsaco:{arch.name}" for arch in triton_rocm_archs(rocm)]
