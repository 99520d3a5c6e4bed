"""Finds Python.h and the file suffix of extension modules."""

from __future__ import annotations

import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from opsmith.errors import ToolchainError

__all__ = ["PythonHeaders", "find_python_headers"]


@dataclass(frozen=True)
class PythonHeaders:
    """What a C++ file that includes Python.h needs."""

    include_dirs: tuple[Path, ...]
    extension_suffix: str  # .cpython-313-x86_64-linux-gnu.so
    abi: str  # cpython-313; what a binary against the full C API depends on


def find_python_headers() -> PythonHeaders:
    """Return the headers of the running Python. Raises ToolchainError if Python.h is not installed."""
    # The second differs from the first where pyconfig.h depends on the machine.
    folders = tuple(dict.fromkeys(Path(sysconfig.get_path(name)) for name in ("include", "platinclude")))
    if not any((folder / "Python.h").is_file() for folder in folders):
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise ToolchainError(
            f"Python.h of Python {version} is not installed (looked in {', '.join(map(str, folders))}). Install it "
            f"with `apt-get install python{version}-dev` or `dnf install python{version}-devel`; a Python of conda or "
            f"uv has it: `conda install python={version}`."
        )
    return PythonHeaders(
        include_dirs=folders,
        extension_suffix=str(sysconfig.get_config_var("EXT_SUFFIX")),
        abi=str(sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag),
    )
