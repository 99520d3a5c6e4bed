"""Finds what this machine has to build with: host compiler, CUDA, ROCm, torch, ninja."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opsmith._lazy import lazy_names

if TYPE_CHECKING:
    from opsmith.toolchain.archs import CudaArch, RocmArch, parse_cuda_archs, parse_rocm_archs
    from opsmith.toolchain.cuda import CudaCompiler, find_cuda_compiler
    from opsmith.toolchain.cute import CuteInstall, find_cute
    from opsmith.toolchain.host import HostCompiler, find_host_compiler
    from opsmith.toolchain.ninja import find_ninja
    from opsmith.toolchain.nvrtc import NvrtcInstall, find_nvrtc
    from opsmith.toolchain.probe import ProbeCache, default_probes
    from opsmith.toolchain.python_headers import PythonHeaders, find_python_headers
    from opsmith.toolchain.rocm import RocmCompiler, find_rocm_compiler
    from opsmith.toolchain.toolchain import Toolchain, find_toolchain
    from opsmith.toolchain.torch_install import TorchInstall, find_torch
    from opsmith.toolchain.triton import TritonInstall, find_triton

__all__ = [
    "CudaArch",
    "CudaCompiler",
    "CuteInstall",
    "HostCompiler",
    "NvrtcInstall",
    "ProbeCache",
    "PythonHeaders",
    "RocmArch",
    "RocmCompiler",
    "Toolchain",
    "TorchInstall",
    "TritonInstall",
    "default_probes",
    "find_cuda_compiler",
    "find_cute",
    "find_host_compiler",
    "find_ninja",
    "find_nvrtc",
    "find_python_headers",
    "find_rocm_compiler",
    "find_toolchain",
    "find_torch",
    "find_triton",
    "parse_cuda_archs",
    "parse_rocm_archs",
]

__getattr__ = lazy_names(
    __name__,
    {
        "CudaArch": "archs",
        "CudaCompiler": "cuda",
        "CuteInstall": "cute",
        "HostCompiler": "host",
        "NvrtcInstall": "nvrtc",
        "ProbeCache": "probe",
        "PythonHeaders": "python_headers",
        "RocmArch": "archs",
        "RocmCompiler": "rocm",
        "Toolchain": "toolchain",
        "TorchInstall": "torch_install",
        "TritonInstall": "triton",
        "default_probes": "probe",
        "find_cuda_compiler": "cuda",
        "find_cute": "cute",
        "find_host_compiler": "host",
        "find_ninja": "ninja",
        "find_nvrtc": "nvrtc",
        "find_python_headers": "python_headers",
        "find_rocm_compiler": "rocm",
        "find_toolchain": "toolchain",
        "find_torch": "torch_install",
        "find_triton": "triton",
        "parse_cuda_archs": "archs",
        "parse_rocm_archs": "archs",
    },
)
