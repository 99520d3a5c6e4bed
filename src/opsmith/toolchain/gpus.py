"""Finds the GPUs that torch sees, in another process where this one should not initialise them.

A process that has asked CUDA anything cannot fork processes that use a GPU. Who is going to, as `opsmith check` is, sets
PyTorch's own variable for that, PYTORCH_NVML_BASED_CUDA_CHECK=1.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import NamedTuple

from opsmith import _env
from opsmith._subprocess import ask

__all__ = ["Gpu", "find_gpus"]

_PROGRAM = """
import json, torch
found = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
print("GPUS", json.dumps([[gpu.name, gpu.major, gpu.minor, getattr(gpu, "gcnArchName", "")] for gpu in found]))
"""
_TIMEOUT_S = 120.0


class _NoAnswerError(Exception):
    pass


class Gpu(NamedTuple):
    """A GPU: its name, its compute capability, and for ROCm the architecture's name."""

    name: str
    major: int
    minor: int
    architecture: str


def find_gpus() -> tuple[Gpu, ...]:
    """Return the GPUs that torch sees, in its order; none where a process that is to ask fails.

    The next call then asks again: a GPU that another program kept busy answers later.
    """
    import torch

    if torch.cuda.device_count() == 0:
        return ()
    if _env.read("PYTORCH_NVML_BASED_CUDA_CHECK") == "1" and not torch.cuda.is_initialized():
        try:
            return _ask()
        except _NoAnswerError:
            return ()
    found = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return tuple(Gpu(gpu.name, gpu.major, gpu.minor, getattr(gpu, "gcnArchName", "")) for gpu in found)


@cache
def _ask() -> tuple[Gpu, ...]:
    """Return what another process finds; raises _NoAnswerError, which is not cached, where it fails."""
    done = ask([sys.executable, "-c", _PROGRAM], timeout_s=_TIMEOUT_S)
    lines = [] if isinstance(done, str) else [line for line in done.output.splitlines() if line.startswith("GPUS ")]
    if not lines:
        raise _NoAnswerError
    return tuple(Gpu(*item) for item in json.loads(lines[-1].removeprefix("GPUS ")))
