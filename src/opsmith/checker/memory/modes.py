"""Reads the modes that a call must leave as they are: of the processor, of the calling thread and of PyTorch."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Any

import torch

__all__ = ["changed_modes", "modes"]

_TINY = 1e-40  # a denormal number in float32
_ELEMENTS = 1 << 17  # four chunks of PyTorch's
# Of the processor's modes: the bits, and what they mean.
_X86 = (
    (0x8000, "flush-to-zero"),
    (0x0040, "denormals-are-zero"),
    (0x6000, "the rounding mode"),
    (0x1F80, "which floating-point exceptions are trapped"),
)
_ARM = ((1 << 24, "flush-to-zero"), (3 << 22, "the rounding mode"), (0x9F00, "which exceptions are trapped"))


def modes() -> dict[str, Any]:
    """Return the modes of this thread and of PyTorch, by what a reader calls them."""
    found: dict[str, Any] = {
        **_of_processor(),
        "denormals in PyTorch's threads": _keeps_denormals(),
        "torch.get_default_dtype()": torch.get_default_dtype(),
        "torch.get_default_device()": torch.get_default_device(),
        "torch.is_grad_enabled()": torch.is_grad_enabled(),
        "torch.is_inference_mode_enabled()": torch.is_inference_mode_enabled(),
        "torch.get_num_threads()": torch.get_num_threads(),
        "torch.are_deterministic_algorithms_enabled()": torch.are_deterministic_algorithms_enabled(),
        "torch.is_autocast_enabled()": (torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")),
        "torch.get_float32_matmul_precision()": torch.get_float32_matmul_precision(),
    }
    if hasattr(os, "sched_getaffinity"):
        found["the cores that the calling thread may use"] = frozenset(os.sched_getaffinity(0))
    if torch.cuda.is_initialized():
        found["torch.cuda.current_device()"] = torch.cuda.current_device()
        found["torch.cuda.current_stream()"] = torch.cuda.current_stream()
    return found


def changed_modes(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Say which modes are not what they were, or return ""."""
    return ", ".join(
        f"{name} ({before[name]} → {after.get(name)})" for name in before if before[name] != after.get(name)
    )


def _of_processor() -> dict[str, bool | int]:
    """Return the modes of floating-point arithmetic: those of fenv.h, and what it does not name."""
    word = _control_word()
    if word is None:
        return {}
    table = _X86 if platform.machine() == "x86_64" else _ARM
    return {name: (word & mask) // (mask & -mask) for mask, name in table}


def _control_word() -> int | None:
    """Return the register with the modes, out of what glibc's fegetenv saves: MXCSR, or FPCR."""
    places = {"x86_64": 28, "aarch64": 0}
    if platform.machine() not in places:
        return None
    saved = (ctypes.c_uint8 * 64)()
    try:
        ask = ctypes.CDLL("libm.so.6").fegetenv
    except (OSError, AttributeError):
        return None
    if ask(saved) != 0:
        return None
    at = places[platform.machine()]
    return int.from_bytes(bytes(saved[at : at + 4]), "little")


def _keeps_denormals() -> bool:
    """Whether PyTorch's threads compute with denormals; each has modes of its own."""
    halves = torch.full((_ELEMENTS,), _TINY, dtype=torch.float32, device="cpu") * 0.5
    return bool((halves != 0).all())
