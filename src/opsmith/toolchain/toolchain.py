"""Combines host compiler, device compilers and torch into the toolchain of a build."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opsmith.catalogue.packages import toolkit_command
from opsmith.toolchain.host import HostCompiler, find_host_compiler
from opsmith.toolchain.probe import ProbeCache, default_probes
from opsmith.toolchain.torch_install import TorchInstall, find_torch

if TYPE_CHECKING:
    from opsmith.toolchain.cuda import CudaCompiler
    from opsmith.toolchain.cute import CuteInstall
    from opsmith.toolchain.nvrtc import NvrtcInstall
    from opsmith.toolchain.rocm import RocmCompiler
    from opsmith.toolchain.triton import TritonInstall

__all__ = ["Toolchain", "find_toolchain"]


@dataclass(frozen=True)
class Toolchain:
    """What a build uses; a device compiler is None if it was not asked for."""

    host: HostCompiler
    torch: TorchInstall
    cuda: CudaCompiler | None = None
    rocm: RocmCompiler | None = None
    triton: TritonInstall | None = None
    nvrtc: NvrtcInstall | None = None
    cute: CuteInstall | None = None

    @property
    def compilers(self) -> dict[str, str]:
        """The identity of each compiler by its role, for cache keys and manifests; no path is in it."""
        tools = {
            "host": self.host,
            "cuda": self.cuda,
            "rocm": self.rocm,
            "triton": self.triton,
            "nvrtc": self.nvrtc,
            "cute": self.cute,
        }
        return {role: tool.identity for role, tool in tools.items() if tool is not None}

    @property
    def compiles_ahead(self) -> bool:
        """Whether it has a compiler of kernels that are compiled ahead."""
        return any(tool is not None for tool in (self.triton, self.nvrtc, self.cute))

    @property
    def cuda_mismatch(self) -> str | None:
        """Why this nvcc and this torch must not share a process, or None if they may.

        CUDA keeps its binary interface within a major version (CUDA Compatibility, "minor version compatibility"), so
        13.0 and 13.2 are compatible. A torch without CUDA fits every nvcc: the build is for another machine.
        """
        if self.cuda is None or self.torch.cuda is None:
            return None
        if self.cuda.version.split(".")[0] == self.torch.cuda.split(".")[0]:
            return None
        return (
            f"torch {self.torch.version} is built for CUDA {self.torch.cuda}, but nvcc is {self.cuda.version} "
            f"({self.cuda.nvcc}). Install a matching toolkit with `{toolkit_command(self.torch.cuda)}`, set CUDA_HOME to "
            f"one of CUDA {self.torch.cuda.split('.')[0]}, or install a torch for CUDA {self.cuda.version.split('.')[0]}. "
            "OPSMITH_SKIP_CUDA_CHECK=1 builds anyway."
        )


def find_toolchain(
    *,
    cuda: bool,
    rocm: bool,
    ahead: Collection[str] = (),
    cuda_release: str | None = None,
    probes: ProbeCache | None = None,
) -> Toolchain:
    """Return the machine's toolchain, with the device compilers that are asked for.

    `ahead` are those of kernels that are compiled ahead, "triton", "nvrtc" and "cute". `cuda_release` ("12", "12.8") is the
    CUDA that nvcc has to be of; without it, that of torch comes first. A process that finds only compilers it or another
    has asked before starts no program. Raises ToolchainError if something asked for is missing, too old, or broken.
    """
    probes = probes or default_probes()
    torch = find_torch()
    found_cuda, found_rocm = None, None
    # Imported where they are needed: a machine without a GPU loads an operator without them.
    if cuda:
        from opsmith.toolchain.cuda import find_cuda_compiler

        found_cuda = find_cuda_compiler(fit=torch.cuda, release=cuda_release, probes=probes)
    if rocm:
        from opsmith.toolchain.rocm import find_rocm_compiler

        found_rocm = find_rocm_compiler(probes=probes)
    found_triton, found_nvrtc, found_cute = None, None, None
    if "triton" in ahead:
        from opsmith.toolchain.triton import find_triton

        found_triton = find_triton()
    if "nvrtc" in ahead:
        from opsmith.toolchain.nvrtc import find_nvrtc

        found_nvrtc = find_nvrtc(fit=torch.cuda, probes=probes)
    if "cute" in ahead:
        from opsmith.toolchain.cute import find_cute

        found_cute = find_cute()
    return Toolchain(
        find_host_compiler(probes=probes), torch, found_cuda, found_rocm, found_triton, found_nvrtc, found_cute
    )
