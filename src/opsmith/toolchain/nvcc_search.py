"""Lists where nvcc may be installed, in order of preference."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opsmith import _env
from opsmith.errors import MissingToolkitError
from opsmith.toolchain.search import chosen_toolkit, executables, is_executable

__all__ = ["INSTALL_CUDA", "NvccCandidate", "chosen_nvcc", "found_nvccs"]

INSTALL_CUDA = (
    "Install the CUDA toolkit (https://developer.nvidia.com/cuda-downloads), or its wheels with "
    "`pip install 'opsmith[cuda]'`, or set CUDA_HOME to the folder that has bin/nvcc."
)


# Where NVIDIA's packages for a system put toolkits.
_SYSTEM = Path("/usr/local")


@dataclass(frozen=True)
class NvccCandidate:
    """An nvcc, as it was found: perhaps a link or a script, with the variable or the kind of folder that led to it."""

    path: Path
    origin: str  # CUDA_HOME, PATH, conda, /usr/local/cuda, /usr/local/cuda-12.8, PyPI


def chosen_nvcc() -> NvccCandidate | None:
    """Return the nvcc that CUDA_HOME or CUDA_PATH names, or None if neither is set.

    Raises MissingToolkitError if the folder has none: a wrong choice is not replaced by another.
    """
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if chosen := chosen_toolkit(variable):
            nvcc = chosen / "bin" / "nvcc"
            if is_executable(nvcc):
                return NvccCandidate(nvcc, variable)
            raise MissingToolkitError(f"{variable} is {chosen}, but {nvcc} is not a program. {INSTALL_CUDA}")
    return None


def found_nvccs() -> Iterator[NvccCandidate]:
    """Yield every nvcc that is installed in a usual folder, in order of preference."""
    seen: set[Path] = set()
    for candidate in _candidates():
        # /usr/local/cuda is a link to one of the folders beside it.
        if is_executable(candidate.path) and (real := candidate.path.resolve()) not in seen:
            seen.add(real)
            yield candidate


def _candidates() -> Iterator[NvccCandidate]:
    yield from (NvccCandidate(path, "PATH") for path in executables("nvcc"))
    # An environment whose Python was started by its path, without `conda activate`, is not on PATH.
    activated = _env.read("CONDA_PREFIX")
    here = sys.prefix if Path(sys.prefix, "conda-meta").is_dir() else None
    for prefix in dict.fromkeys(filter(None, (activated, here))):
        yield NvccCandidate(Path(prefix, "bin", "nvcc"), "conda")
    yield NvccCandidate(_SYSTEM / "cuda" / "bin" / "nvcc", str(_SYSTEM / "cuda"))
    for toolkit in sorted(_SYSTEM.glob("cuda-[0-9]*"), key=_version, reverse=True):
        yield NvccCandidate(toolkit / "bin" / "nvcc", str(toolkit))
    for folder in dict.fromkeys(sys.path):
        wheels = Path(folder or ".").absolute() / "nvidia"
        # nvidia/cu13, in time nvidia/cu14: the newest first. The wheels of CUDA 12 (nvidia/cuda_nvcc) have ptxas and
        # headers, and no nvcc.
        found = wheels.glob("cu[0-9]*/bin/nvcc")
        yield from (NvccCandidate(nvcc, "PyPI") for nvcc in sorted(found, key=_wheel_major, reverse=True))


def _version(toolkit: Path) -> tuple[int, ...]:
    """Return the numbers in the name of NVIDIA's folder, such as cuda-12.8."""
    return tuple(int(part) for part in re.findall(r"\d+", toolkit.name))


def _wheel_major(nvcc: Path) -> int:
    digits = nvcc.parts[-3].removeprefix("cu")
    return int(digits) if digits.isdigit() else 0
