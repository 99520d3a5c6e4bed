"""Finds Triton, which compiles kernels ahead, without importing it."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from opsmith.errors import ToolchainError

__all__ = ["TritonInstall", "find_triton", "triton_version"]

# Since when it compiles by the interface that build/ahead/compile_kernels uses.
_OLDEST = (3, 5)


@dataclass(frozen=True)
class TritonInstall:
    """An installed Triton, and the Python that has it."""

    python: Path
    version: str

    @property
    def identity(self) -> str:
        """What decides what it compiles to; it brings the assembler along. The path is not in it."""
        return f"Triton {self.version}"


def find_triton() -> TritonInstall:
    """Return the Triton of this Python; raises ToolchainError if there is none, or it is too old."""
    version = triton_version()
    if version is None:
        raise ToolchainError(
            f"This Python ({sys.executable}) has no Triton, which compiles Triton kernels. Install it with "
            '`pip install "opsmith[triton]"`; where a library is only loaded, it is not needed'
        )
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise ToolchainError(f"Triton {version} is too old: kernels are compiled ahead with {oldest} or newer")
    return TritonInstall(Path(sys.executable), version)


def triton_version() -> str | None:
    """Return the version of the Triton of this Python, whatever its distribution is called, or None."""
    try:
        spec = find_spec("triton")
    except ValueError:  # a module without a spec stands in its place
        return None
    if spec is None or spec.origin is None:
        return None
    try:
        found = re.search(
            r"^__version__ = ['\"]([^'\"]+)['\"]", Path(spec.origin).read_text(encoding="utf-8"), re.MULTILINE
        )
    except OSError:
        return None
    return found[1] if found else None
