"""Identifies this machine's processor, and the one that -march=native compiles for."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

__all__ = ["asks_for_native", "processor_identity", "processor_name"]

_NATIVE = re.compile(r"-m(?:arch|cpu|tune)=native\b|-xHost\b")

# What /proc/cpuinfo says of the first core that decides about instructions; x86, then Arm.
_DECIDING = ("vendor_id", "cpu family", "model", "flags", "CPU implementer", "CPU part", "CPU variant", "Features")


def asks_for_native(words: Iterable[str]) -> bool:
    """Tell whether a command compiles for the processor that it runs on, be it through nvcc's -Xcompiler."""
    return any(_NATIVE.search(word) for word in words)


@cache
def processor_identity(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return what must be equal for two processors to run the same native code."""
    try:
        first = cpuinfo.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    except OSError:
        first = ""
    rows = (line.partition(":") for line in first.splitlines())
    facts = {name.strip(): value.strip() for name, _, value in rows}
    known = [f"{name}: {facts[name]}" for name in _DECIDING if name in facts]
    return "; ".join([platform.machine(), *(known or [platform.processor(), platform.node()])])


def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor's name as Linux tells it, or what Python knows of it elsewhere."""
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return " ".join(value.split())
    return platform.processor() or platform.machine()
