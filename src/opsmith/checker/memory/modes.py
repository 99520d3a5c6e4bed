"""Reads the modes that a call must leave as they are: of the processor, the calling thread, the process and PyTorch."""

from __future__ import annotations

import ctypes
import locale
import os
import platform
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
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
# Of the older unit's, which long doubles are computed in.
_X87 = ((0x0300, "the precision of long doubles"), (0x0C00, "the rounding mode of long doubles"))
_ARM = ((1 << 24, "flush-to-zero"), (3 << 22, "the rounding mode"), (0x9F00, "which exceptions are trapped"))


def modes(*, in_all_threads: bool = True) -> dict[str, Any]:
    """Return the modes of this thread and of PyTorch, by what a reader calls them; of other threads if that is asked for."""
    found: dict[str, Any] = {
        **_of_processor(),
        **({"denormals in PyTorch's threads": _keeps_denormals()} if in_all_threads else {}),
        "torch.get_default_dtype()": torch.get_default_dtype(),
        "torch.get_default_device()": torch.get_default_device(),
        "torch.is_grad_enabled()": torch.is_grad_enabled(),
        "torch.is_inference_mode_enabled()": torch.is_inference_mode_enabled(),
        "torch.get_num_threads()": torch.get_num_threads(),
        "torch.are_deterministic_algorithms_enabled()": torch.are_deterministic_algorithms_enabled(),
        "torch.is_autocast_enabled()": (torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")),
        "torch.get_float32_matmul_precision()": torch.get_float32_matmul_precision(),
        "torch.backends.cudnn.flags": (torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark),
        "torch.backends.mkldnn.flags": torch.backends.mkldnn.enabled,
        "sys.getrecursionlimit()": sys.getrecursionlimit(),
        "the state of Python's random": hash(random.getstate()),
        **_of_process(),
    }
    if (numpy := sys.modules.get("numpy")) is not None:
        found["numpy.geterr()"] = tuple(numpy.geterr().items())
        found["the state of numpy.random"] = numpy.random.get_state()[1].tobytes()
    if hasattr(os, "sched_getaffinity"):
        found["the cores that the calling thread may use"] = frozenset(os.sched_getaffinity(0))
    if torch.cuda.is_initialized():
        found["torch.cuda.current_device()"] = torch.cuda.current_device()
        found["torch.cuda.current_stream()"] = torch.cuda.current_stream()
    return found


def changed_modes(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Say which modes are not what they were, or return ""."""
    names = (name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name))
    # What a generator's state is says nothing to a reader.
    return ", ".join(
        name if name.startswith("the state of") else f"{name} ({before.get(name)} → {after.get(name)})"
        for name in names
    )


def _of_processor() -> dict[str, bool | int]:
    """Return the modes of floating-point arithmetic: those of fenv.h, and what it does not name."""
    saved = _saved_by_fegetenv()
    if saved is None:
        return {}
    if platform.machine() == "x86_64":
        return {**_bits(saved, 28, _X86), **_bits(saved, 0, _X87)}
    return _bits(saved, 0, _ARM)


def _bits(saved: bytes, at: int, table: tuple[tuple[int, str], ...]) -> dict[str, bool | int]:
    word = int.from_bytes(saved[at : at + 4], "little")
    return {name: (word & mask) // (mask & -mask) for mask, name in table}


def _saved_by_fegetenv() -> bytes | None:
    """Return what glibc's fegetenv saves, with the registers of modes in it: MXCSR and the older control word, or FPCR."""
    if platform.machine() not in ("x86_64", "aarch64"):
        return None
    saved = (ctypes.c_uint8 * 64)()
    try:
        ask = ctypes.CDLL("libm.so.6").fegetenv
    except (OSError, AttributeError):
        return None
    return None if ask(saved) != 0 else bytes(saved)


def _of_process() -> dict[str, Any]:
    """Return what a process has one of: its locale, its folder, its signals and its environment, as C sees them."""
    library = ctypes.CDLL(None)
    library.setlocale.restype = ctypes.c_char_p
    found = {
        "the locale": (library.setlocale(int(locale.LC_ALL), None) or b"").decode(errors="replace"),
        "the working directory": _folder(),
        **_of_status(),
    }
    return found | {f"the environment's {name}": value for name, value in _environment(library)}


def _folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return ""


def _of_status() -> dict[str, str]:
    """Return which signals the calling thread blocks, and which the process ignores and handles, from Linux's /proc."""
    kinds = {
        "Umask": "the umask",
        "SigBlk": "the blocked signals",
        "SigIgn": "the ignored signals",
        "SigCgt": "the handled signals",
    }
    try:
        lines = Path("/proc/thread-self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    told = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return {
        words: told[key] if key == "Umask" else _signals(int(told[key], 16))
        for key, words in kinds.items()
        if key in told
    }


def _signals(mask: int) -> str:
    numbers = (number for number in range(1, 65) if mask >> (number - 1) & 1)
    return " ".join(_signal_name(number) for number in numbers) or "none"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _environment(library: ctypes.CDLL) -> Iterator[tuple[str, str]]:
    """Yield the variables, which `os.environ` has only as Python has set them."""
    try:
        entries = ctypes.POINTER(ctypes.c_char_p).in_dll(library, "environ")
    except ValueError:
        return
    index = 0
    while entries and (entry := entries[index]) is not None:
        name, _, value = entry.decode(errors="replace").partition("=")
        yield name, value
        index += 1


def _keeps_denormals() -> bool:
    """Whether PyTorch's threads compute with denormals; each has modes of its own."""
    halves = torch.full((_ELEMENTS,), _TINY, dtype=torch.float32, device="cpu") * 0.5
    return bool((halves != 0).all())
