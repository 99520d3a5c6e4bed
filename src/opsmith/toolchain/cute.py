"""Finds CuTe DSL (NVIDIA's package nvidia-cutlass-dsl), which compiles kernels ahead, without importing it.

https://docs.nvidia.com/cutlass/media/docs/pythonDSL/cute_dsl.html
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from opsmith.errors import ToolchainError

__all__ = ["CuteInstall", "cute_identity", "find_cute"]

_PACKAGE = "nvidia-cutlass-dsl"
# Its compiler, for either CUDA; where both are installed, CuTe DSL decides.
_LIBRARIES = tuple(f"{_PACKAGE}-libs-{cuda}" for cuda in ("cu12", "cu13"))
# Since when it compiles by the interface that build/ahead/compile_kernels uses.
_OLDEST = (4, 8)


@dataclass(frozen=True)
class CuteInstall:
    """An installed CuTe DSL, and the Python that has it. `identity` is what decides what it compiles to."""

    python: Path
    version: str
    identity: str


def find_cute() -> CuteInstall:
    """Return the CuTe DSL of this Python; raises ToolchainError if there is none, or it is too old."""
    found = _version(_PACKAGE)
    identity = cute_identity()
    if found is None or identity is None:
        raise ToolchainError(
            f"This Python ({sys.executable}) has no CuTe DSL, which compiles the kernels of `opsmith.cute`. Install it with "
            f'`pip install {_PACKAGE}` or `pip install "opsmith[cute]"`; where a library is only loaded, it is not needed'
        )
    numbers = re.match(r"(\d+)\.(\d+)", found)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise ToolchainError(f"CuTe DSL {found} is too old: kernels are compiled ahead with {oldest} or newer")
    return CuteInstall(Path(sys.executable), found, identity)


def cute_identity() -> str | None:
    """Return what the CuTe DSL of this Python is, with its compiler for CUDA 12 or 13; None where there is none."""
    found = _version(_PACKAGE)
    if found is None:
        return None
    libraries = [f"{name.rpartition('-')[2]} {made}" for name in _LIBRARIES if (made := _version(name)) is not None]
    return f"CuTe DSL {found} ({', '.join(libraries)})"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
