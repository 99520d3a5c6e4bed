"""Finds what nvcc needs beside itself: headers and the runtime library, of its toolkit or of NVIDIA's wheels.

A machine may have nvcc of the system with nothing around it, and the rest with a torch from PyPI.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opsmith import _env
from opsmith.catalogue.packages import toolkit_command
from opsmith.errors import MissingToolkitError

__all__ = ["CudaParts", "find_cuda_parts"]

# Where Debian's package has its headers.
_SYSTEM = Path("/usr")

# NVIDIA's name of the machine in <toolkit>/targets.
_TARGETS = {"x86_64": "x86_64-linux", "aarch64": "sbsa-linux"}

# The headers that nvcc itself includes, and where each may be below a folder of headers.
_HEADERS = (("cuda_runtime.h",), ("crt/host_config.h",), ("cccl/nv/target", "nv/target"))
# nvcc's own compiler, below the toolkit.
_CICC = ("nvvm/bin/cicc", "bin/cicc")

_RUNTIME_VERSION = re.compile(r"#define CUDART_VERSION\s+(\d+)")

# Until CUDA 12 each part's wheel has a folder of its own (nvidia/cublas); from 13 on all share one (nvidia/cu13).
_LAST_WITH_FOLDERS = 12


@dataclass(frozen=True)
class CudaParts:
    """What belongs to an nvcc."""

    include: Path  # has cuda_runtime.h
    limits: Path  # has crt/host_config.h, which says which host compilers nvcc accepts
    wheels: tuple[Path, ...]  # the folders of headers of wheels, for what the toolkit lacks
    cudart: Path | None  # the runtime library, static where there is one


def find_cuda_parts(root: Path, version: str) -> CudaParts:
    """Return what belongs to the nvcc of a toolkit and a version.

    Headers of its own toolkit come first, then those of wheels of its major version; those that nvcc itself includes
    must be of its release. Raises MissingToolkitError if a part is missing.
    """
    release = ".".join(version.split(".")[:2])
    wheels = tuple(_wheels(root, version.split(".", maxsplit=1)[0]))
    own = [folder / "include" for folder in _target_dirs(root) if (folder / "include" / "cuda_runtime.h").is_file()]
    fitting = [wheel / "include" for wheel in wheels if _release_of(wheel) in (None, release)]
    # Headers of two toolkits must not be mixed: the first that has any is the one.
    candidates = [*own[:1], *fitting]
    include, limits, _ = (_folder_of(names, candidates, root, release, wheels) for names in _HEADERS)
    if not any((root / name).is_file() for name in _CICC):
        raise _missing(root, root / _CICC[0], release, wheels)
    folders = [folder for wheel in wheels for folder in _header_folders(wheel, include)]
    return CudaParts(include, limits, tuple(folders), _find_cudart(root, wheels))


def _folder_of(names: tuple[str, ...], folders: list[Path], root: Path, release: str, wheels: tuple[Path, ...]) -> Path:
    for folder in folders:
        if any((folder / name).is_file() for name in names):
            return folder
    raise _missing(root, (folders[0] if folders else root / "include") / names[0], release, wheels)


def _missing(root: Path, file: Path, release: str, wheels: tuple[Path, ...]) -> MissingToolkitError:
    # The wheels that torch brings decide: an nvcc of their release is complete with them.
    found = next((found for wheel in wheels if (found := _release_of(wheel)) is not None), release)
    chosen = next((name for name in ("CUDA_HOME", "CUDA_PATH") if _env.read(name)), None)
    unset = f" and unset {chosen}" if chosen else ""
    return MissingToolkitError(
        f"The CUDA toolkit {root} has nvcc {release} but not {file}. Install the complete toolkit, or another one with "
        f"`{toolkit_command(found)}`{unset}."
    )


def _wheels(root: Path, major: str) -> Iterator[Path]:
    """Yield the folders of NVIDIA's wheels of a major version of CUDA on this Python's path, but for the toolkit's own."""
    for path in dict.fromkeys(sys.path):
        nvidia = Path(path or ".").absolute() / "nvidia"
        found = [nvidia / f"cu{major}"]
        if int(major) <= _LAST_WITH_FOLDERS:
            found += sorted(folder for folder in nvidia.glob("*") if not re.fullmatch(r"cu\d+", folder.name))
        yield from (folder for folder in found if (folder / "include").is_dir() and folder.resolve() != root.resolve())


def _release_of(wheel: Path) -> str | None:
    """Return the version of CUDA that a wheel's runtime headers are of, such as 13.0; None if it has none."""
    try:
        text = (wheel / "include" / "cuda_runtime_api.h").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = _RUNTIME_VERSION.search(text)
    return f"{int(found[1]) // 1000}.{int(found[1]) % 1000 // 10}" if found else None


def _header_folders(wheel: Path, include: Path) -> Iterator[Path]:
    yield wheel / "include"
    # CCCL's headers name each other by what is after the first folder: of two versions one must be out of sight.
    is_needed = include == wheel / "include" or not any((include / name).is_file() for name in _HEADERS[-1])
    if is_needed and (wheel / "include" / "cccl").is_dir():
        yield wheel / "include" / "cccl"


def _target_dirs(root: Path) -> tuple[Path, ...]:
    """Return the folders that may hold include and lib: the toolkit's target, the toolkit, and Debian's /usr."""
    return (root / "targets" / _TARGETS.get(platform.machine(), "none"), root, _SYSTEM)


def _find_cudart(root: Path, wheels: tuple[Path, ...]) -> Path | None:
    # The static one first: a library that carries it loads beside any CUDA runtime of its major version, and where there
    # is none. Some wheels lack it, and name the shared one libcudart.so.13 without a plain libcudart.so.
    roots = [*_target_dirs(root)[:2], *wheels]
    folders = [folder / lib for folder in roots for lib in ("lib", "lib64")]
    patterns = ("libcudart_static.a", "libcudart.so*")
    found = [library for pattern in patterns for directory in folders for library in sorted(directory.glob(pattern))]
    return found[0] if found else None
