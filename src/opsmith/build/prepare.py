"""Prepares a build of definitions: devices that can be served here, toolchain, target and plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from opsmith.build.plan import TORCH_TARGET, plan_extension
from opsmith.build.prebuilt import library_name
from opsmith.build.target import Prepared, choose_target, choose_toolchain, is_for_rocm
from opsmith.codegen.extension import assemble
from opsmith.errors import ToolchainError
from opsmith.spec.definition import AHEAD, Device, Group
from opsmith.toolchain import find_torch

__all__ = ["Prepared", "prepare"]

# What messages call the kernels that are compiled ahead.
_KINDS = {"triton": "Triton", "nvrtc": "opsmith.kernel", "cute": "CuTe"}
# Those of them that are compiled for AMD's GPUs too.
_FOR_BOTH = frozenset({"triton"})


def prepare(
    group: Group,
    devices: Sequence[Device],
    *,
    archs: str | None = None,
    cuda: str | None = None,
    torch_target: tuple[int, int] = TORCH_TARGET,
    strict: bool = False,
    timed: bool = False,
) -> Prepared:
    """Return the plan for the definitions of a module on some devices.

    Where the GPU's compiler is missing, the rest is planned and `missing` says why; with `strict` that raises
    ToolchainError instead, as does a missing host compiler or torch always. `cuda` as for `choose_toolchain`, `timed`
    as for `generate_binding`.
    """
    missing: dict[Device, str] = {}
    chosen = tuple(devices)
    styles = {item.kernels["cuda"].style for item in group.definitions if "cuda" in chosen and "cuda" in item.kernels}
    ahead = styles & AHEAD
    # These have compilers of their own: only other kernels need nvcc or hipcc.
    with_gpu = "cuda" in chosen and not (styles and styles <= AHEAD)
    try:
        if unfit := ahead - _FOR_BOTH:
            _refuse_rocm(group, _KINDS[min(unfit)], archs)
        toolchain = choose_toolchain(gpu=with_gpu, ahead=ahead, archs=archs, cuda=cuda)
    except ToolchainError as error:
        if strict or "cuda" not in chosen:
            raise
        toolchain = choose_toolchain(gpu=False)
        missing["cuda"] = str(error)
        chosen = tuple(device for device in chosen if device != "cuda")
    extension = replace(
        assemble(group.module, group.definitions, chosen, timed=timed), library=library_name(group.file)
    )
    target = choose_target(toolchain, archs, torch_target)
    return Prepared(plan_extension(extension, toolchain, target), toolchain, target, missing)


def _refuse_rocm(group: Group, kind: str, archs: str | None) -> None:
    """Raise ToolchainError where kernels of a kind that NVIDIA's GPUs alone have are to be built for AMD's."""
    if is_for_rocm(find_torch(), archs):
        raise ToolchainError(
            f"{group.module} has {kind} kernels, and those are compiled ahead for NVIDIA's GPUs alone. For AMD's write the "
            'kernel in a .cu or .hip file for hipcc, cuda="kernel.cu:name", or in Triton, cuda=opsmith.triton(...)'
        )
