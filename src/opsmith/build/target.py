"""With what, and for which GPUs, is a build made: what every kind of extension asks before it is planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opsmith import _env
from opsmith.build.plan import Plan, Target
from opsmith.errors import ToolchainError
from opsmith.toolchain import Toolchain, find_toolchain

if TYPE_CHECKING:  # existing sources have no definition, and are loaded sooner without it
    from opsmith.spec.definition import Device

__all__ = ["Prepared", "choose_target", "choose_toolchain"]

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


def choose_toolchain(*, gpu: bool) -> Toolchain:
    """Return the toolchain, with the GPU compiler that torch is built for where one is asked for.

    Raises ToolchainError where something is missing, or nvcc and torch belong to different CUDAs.
    """
    if not gpu:
        return find_toolchain(cuda=False, rocm=False)
    from opsmith.toolchain import find_torch

    rocm = find_torch().hip is not None
    toolchain = find_toolchain(cuda=not rocm, rocm=rocm)
    if toolchain.cuda_mismatch:
        raise ToolchainError(toolchain.cuda_mismatch)
    return toolchain


def choose_target(toolchain: Toolchain, archs: str | None, torch_target: tuple[int, int]) -> Target:
    """Return what to build for: the architectures asked for, or of the environment, or of this machine's GPU."""
    if toolchain.cuda is not None:
        from opsmith.toolchain import parse_cuda_archs

        text = archs or _env.read("OPSMITH_CUDA_ARCHS") or _env.read("TORCH_CUDA_ARCH_LIST")
        native = _native_cuda()
        text = text or ("native" if native else _NO_GPU_CUDA_ARCHS)
        return Target(parse_cuda_archs(text, native=native, supported=toolchain.cuda.archs), torch_target=torch_target)
    if toolchain.rocm is not None:
        from opsmith.toolchain import parse_rocm_archs

        text = archs or _env.read("OPSMITH_ROCM_ARCHS") or _env.read("PYTORCH_ROCM_ARCH")
        names = _native_rocm()
        text = text or ("native" if names else _NO_GPU_ROCM_ARCHS)
        return Target(rocm_archs=parse_rocm_archs(text, native=names), torch_target=torch_target)
    return Target(torch_target=torch_target)


def _native_cuda() -> tuple[str, ...]:
    import torch

    if torch.version.cuda is None or not torch.cuda.is_available():
        return ()
    pairs = {torch.cuda.get_device_capability(index) for index in range(torch.cuda.device_count())}
    return tuple(f"{major}.{minor}" for major, minor in sorted(pairs))


def _native_rocm() -> tuple[str, ...]:
    import torch

    if torch.version.hip is None or not torch.cuda.is_available():
        return ()
    names = {torch.cuda.get_device_properties(index).gcnArchName for index in range(torch.cuda.device_count())}
    return tuple(sorted(names))
