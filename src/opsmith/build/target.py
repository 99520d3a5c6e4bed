"""Chooses the toolchain and the GPU architectures of a build, for every kind of extension."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opsmith import _env
from opsmith._torch_release import release_of
from opsmith.build.ahead.archs import cute_archs, triton_archs, triton_rocm_archs
from opsmith.build.plan import TORCH_TARGET, Plan, Target
from opsmith.errors import ToolchainError
from opsmith.toolchain import Toolchain, find_toolchain

if TYPE_CHECKING:  # existing sources have no definition, and are loaded sooner without it
    from opsmith.spec.definition import Device
    from opsmith.toolchain import CudaArch, RocmArch, TorchInstall

__all__ = ["Prepared", "choose_cuda_archs", "choose_rocm_archs", "choose_target", "choose_toolchain", "is_for_rocm"]

# What a build for no particular GPU covers: everything from Volta's successor on that torch's own wheels do, with PTX
# for what comes after. A build on the machine itself takes that machine's GPU alone.
_NO_GPU_CUDA_ARCHS = "8.0;9.0+PTX"
_NO_GPU_ROCM_ARCHS = "gfx90a"


@dataclass(frozen=True)
class Prepared:
    """A build that can start. `missing` tells for each device that cannot be served why that is so."""

    plan: Plan
    toolchain: Toolchain
    target: Target
    missing: Mapping[Device, str] = field(default_factory=dict)


def choose_toolchain(
    *,
    gpu: bool,
    ahead: Collection[str] = (),
    check_cuda: bool = True,
    archs: str | None = None,
    cuda: str | None = None,
) -> Toolchain:
    """Return the toolchain, with a GPU compiler if requested: the one that torch is built for.

    For a torch without GPU, `archs` decide: hipcc compiles for gfx90a. `cuda` ("12", "12.8") asks for an nvcc of that CUDA,
    whatever torch is for; what it compiles has the runtime inside, and is tied to no torch's. `ahead` asks for the compilers
    of kernels that are compiled ahead ("triton", "nvrtc", "cute"), which need neither nvcc nor a toolkit.

    Raises ToolchainError if something is missing, or nvcc and torch belong to different CUDAs and `check_cuda` is set.
    """
    if not gpu:
        return find_toolchain(cuda=False, rocm=False, ahead=ahead)
    from opsmith.toolchain import find_torch

    torch = find_torch()
    rocm = is_for_rocm(torch, archs)
    if cuda is not None:
        return _of_release(cuda, rocm=rocm, ahead=ahead)
    toolchain = find_toolchain(cuda=not rocm, rocm=rocm, ahead=ahead)
    if check_cuda and toolchain.cuda_mismatch and _env.read("OPSMITH_SKIP_CUDA_CHECK") is None:
        raise ToolchainError(toolchain.cuda_mismatch)
    return toolchain


def _of_release(cuda: str, *, rocm: bool, ahead: Collection[str]) -> Toolchain:
    if rocm:
        raise ToolchainError(f"CUDA {cuda} is asked for, but the architectures or this torch are ROCm's")
    toolchain = find_toolchain(cuda=True, rocm=False, ahead=ahead, cuda_release=cuda)
    assert toolchain.cuda is not None
    if not toolchain.cuda.has_static_cudart:
        raise ToolchainError(
            f"The toolkit {toolchain.cuda.root} has no libcudart_static.a, and with the shared runtime the library would "
            f"load beside a torch for CUDA {cuda.split('.', maxsplit=1)[0]} alone. Install the complete toolkit (conda: "
            f"cuda-cudart-static={cuda})."
        )
    return toolchain


def is_for_rocm(torch: TorchInstall, archs: str | None) -> bool:
    """Tell whether a build is for AMD's GPUs: torch is, or it is for none and the architectures are AMD's (gfx90a)."""
    names_rocm = archs is not None and archs.strip().lower().startswith("gfx")
    return torch.hip is not None or (torch.cuda is None and names_rocm)


def choose_target(toolchain: Toolchain, archs: str | None, torch_target: tuple[int, int]) -> Target:
    """Return what to build for: the architectures asked for, or of the environment, or of this machine's GPU.

    Raises ToolchainError for a target that is newer than the torch of the build, whose headers know nothing of it.
    """
    built_with = release_of(toolchain.torch.version)
    if built_with is not None and torch_target > built_with:
        target, oldest = (".".join(map(str, one)) for one in (torch_target, TORCH_TARGET))
        raise ToolchainError(
            f"The torch target {target} is newer than torch {toolchain.torch.version}, which would compile for it. "
            f"A target is the oldest torch that can load the library: write {oldest}, or install torch {target}."
        )
    cuda: tuple[CudaArch, ...] = ()
    rocm: tuple[RocmArch, ...] = ()
    if toolchain.cuda is not None:
        cuda = choose_cuda_archs(archs, supported=toolchain.cuda.archs)
    elif toolchain.rocm is not None:
        rocm = choose_rocm_archs(archs)
    elif toolchain.nvrtc is not None:
        cuda = choose_cuda_archs(archs, supported=toolchain.nvrtc.archs, compiler="NVRTC")
    elif toolchain.triton is not None and is_for_rocm(toolchain.torch, archs):
        rocm = triton_rocm_archs(choose_rocm_archs(archs))
    elif toolchain.triton is not None:
        cuda = triton_archs(choose_cuda_archs(archs, supported=()))
    elif toolchain.cute is not None:
        cuda = cute_archs(choose_cuda_archs(archs, supported=()))
    return Target(cuda, rocm, torch_target)


def choose_cuda_archs(archs: str | None, *, supported: Sequence[str], compiler: str = "nvcc") -> tuple[CudaArch, ...]:
    """Return the CUDA architectures asked for, or of the environment, or of this machine's GPUs.

    Without a GPU, "native" and no wish at all mean what most machines have. A GPU that is newer than the compiler gets PTX
    of the newest architecture that this knows. `supported` is what it compiles for; () where that is unknown.
    """
    from opsmith.toolchain import parse_cuda_archs

    text = archs or _env.read("OPSMITH_CUDA_ARCHS") or _env.read("TORCH_CUDA_ARCH_LIST") or "native"
    native = _native_cuda()
    if text.strip().lower() == "native":
        text = ";".join(_within(name, supported) for name in native) if native else _NO_GPU_CUDA_ARCHS
    return parse_cuda_archs(text, native=native, supported=supported, compiler=compiler)


def choose_rocm_archs(archs: str | None) -> tuple[RocmArch, ...]:
    """Return the ROCm architectures asked for, or of the environment, or of this machine's GPUs, else a usual one."""
    from opsmith.toolchain import parse_rocm_archs

    text = archs or _env.read("OPSMITH_ROCM_ARCHS") or _env.read("PYTORCH_ROCM_ARCH") or "native"
    native = _native_rocm()
    if not native and text.strip().lower() == "native":
        text = _NO_GPU_ROCM_ARCHS
    return parse_rocm_archs(text, native=native)


def _within(capability: str, supported: Sequence[str]) -> str:
    newest = supported[-1] if supported else capability
    return f"{newest}+PTX" if _numbers(capability) > _numbers(newest) else capability


def _numbers(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split("."))


def _native_cuda() -> tuple[str, ...]:
    import torch

    from opsmith.toolchain.gpus import find_gpus

    if torch.version.cuda is None or not torch.cuda.is_available():
        return ()
    pairs = {(gpu.major, gpu.minor) for gpu in find_gpus()}
    return tuple(f"{major}.{minor}" for major, minor in sorted(pairs))


def _native_rocm() -> tuple[str, ...]:
    import torch

    from opsmith.toolchain.gpus import find_gpus

    if torch.version.hip is None or not torch.cuda.is_available():
        return ()
    return tuple(sorted({gpu.architecture for gpu in find_gpus()}))
