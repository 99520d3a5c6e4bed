"""Says which devices there are, and waits for them."""

from __future__ import annotations

import torch

from opsmith._env import set_default

__all__ = ["devices_here", "wait_for_gpu"]


def devices_here() -> tuple[str, ...]:
    """Return the devices of this machine, without using them.

    Asking CUDA itself would make the GPU unusable in processes that are forked later; so would loading an operator,
    which asks as well. From here on both ask the driver's management library.
    """
    set_default("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    return ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)


def wait_for_gpu() -> None:
    """Wait until the GPU has done all that is queued, if this process uses one."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
