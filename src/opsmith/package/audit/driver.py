"""Tells which NVIDIA driver the code in libraries needs: fat binaries have the versions of their machine code and PTX.

Machine code runs with every driver of its CUDA's major version or a newer one ("minor version compatibility" in NVIDIA's
CUDA Compatibility). PTX needs a driver that is as new as the CUDA it was compiled with ("Release History" of PTX ISA).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from opsmith.package.audit.facts import Library
from opsmith.toolchain.shims import Release, release_text

__all__ = ["DriverNeed", "cuda_of", "find_driver"]

# The oldest driver for programs of a CUDA.
_OLDEST = {11: 450, 12: 525, 13: 580}

# CUDA 13 has raised the version of machine code, which a driver for CUDA 12 does not load.
_FIRST_OF_13 = (1, 8)

# PTX 8.5 is of CUDA 12.5 and 12.6; from there to 8.8 the numbers differ by one more.
_PTX_OFF = {(8, 6): (12, 7), (8, 7): (12, 8), (8, 8): (12, 9)}

_NVCC = re.compile(r"nvcc V(\d+)\.")


@dataclass(frozen=True)
class DriverNeed:
    """The driver that machine code of a CUDA needs, and for the PTX the CUDA that it must be for."""

    cuda: int
    oldest: int | None  # of NVIDIA's driver; None for a CUDA that is not known here
    ptx: Release | None = None

    @property
    def text(self) -> str:
        """Such as "525 or newer"."""
        return f"{self.oldest} or newer" if self.oldest else f"one for CUDA {self.cuda} or newer"

    @property
    def reason(self) -> str:
        """Why it is needed."""
        ptx = f"; its PTX needs one for CUDA {release_text(self.ptx)}" if self.ptx else ""
        return f"its code is CUDA {self.cuda}'s{ptx}"


def find_driver(libraries: Iterable[Library]) -> DriverNeed | None:
    """Return what the newest code of libraries needs; None without CUDA code, or where its CUDA is not known."""
    libraries = tuple(libraries)
    cuda = max((found for library in libraries if (found := cuda_of(library)) is not None), default=None)
    if cuda is None:
        return None
    ptx = max((_cuda_of_ptx(library.ptx_version) for library in libraries if library.ptx_version), default=None)
    return DriverNeed(cuda, _OLDEST.get(cuda), ptx)


def cuda_of(library: Library) -> int | None:
    """Return the major version of the CUDA whose code a library has, or None if that cannot be told.

    Machine code tells CUDA 13 from what came before; PTX, and opsmith's description, tell the release.
    """
    found = []
    if library.cubin_version >= _FIRST_OF_13:
        found.append(13)
    if library.ptx_version is not None:
        found.append(_cuda_of_ptx(library.ptx_version)[0])
    if library.cuda and library.manifest is not None:
        found += [int(match[1]) for tool in library.manifest.toolchain.values() if (match := _NVCC.search(tool))]
    return max(found, default=None)


def _cuda_of_ptx(version: Release) -> Release:
    return _PTX_OFF.get(version, (version[0] + 4, version[1]))
