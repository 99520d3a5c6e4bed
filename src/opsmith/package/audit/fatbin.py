"""Reads which NVIDIA GPUs the code in a library is for, and how new its formats are: CUDA's fat binaries.

Their layout is not documented; the fields read here are those that `cuobjdump` shows, as nvcc 11 to 13 write them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from opsmith.errors import AuditError
from opsmith.package.audit.elf import Bytes, Elf, Section
from opsmith.package.audit.images import image_archs
from opsmith.toolchain.archs import CudaArch, Suffix
from opsmith.toolchain.shims import Release

__all__ = ["CUDA_SECTIONS", "CudaCode", "cuda_code"]

# With separate compilation (-rdc=true) the code that still has to be linked is in the second.
CUDA_SECTIONS = (".nv_fatbin", "__nv_relfatbin")

_CUDA_MAGIC = 0xBA55ED50
_PTX, _CUBIN = 1, 2
# Bits of an entry's flags: code for exactly this architecture ("a"), or for its family ("f").
_IS_SPECIFIC, _IS_FAMILY = 0x100000, 0x200000

_MOST_ENTRIES = 100_000


class CudaCode(NamedTuple):
    """The architectures that a library has code for, the oldest first, and the newest versions of the code's format."""

    archs: tuple[CudaArch, ...]
    cubin_version: Release  # (0, 0) without machine code
    ptx_version: Release | None


def cuda_code(data: Bytes, elf: Elf) -> CudaCode:
    """Return what machine code and PTX a library has, fat binaries and embedded kernels together.

    Raises AuditError if one of these is damaged.
    """
    sass: set[tuple[int, int, Suffix]] = set()
    ptx: set[tuple[int, int, Suffix]] = set()
    cubin_version: Release = (0, 0)
    ptx_version: Release | None = None
    for section in elf.sections:
        if section.name in CUDA_SECTIONS:
            for entry in _cuda_entries(data, section):
                if entry.kind == _PTX:
                    ptx.add(entry.arch)
                    ptx_version = max(entry.version, ptx_version or entry.version)
                else:
                    sass.add(entry.arch)
                    cubin_version = max(entry.version, cubin_version)
    for image in image_archs(data, elf):
        (sass if image.sass else ptx).add((image.major, image.minor, image.suffix))
    archs = tuple(CudaArch(*arch, sass=arch in sass, ptx=arch in ptx) for arch in sorted(sass | ptx))
    return CudaCode(archs, cubin_version, ptx_version)


class _Entry(NamedTuple):
    kind: int
    arch: tuple[int, int, Suffix]
    version: Release


def _cuda_entries(data: Bytes, section: Section) -> Iterator[_Entry]:
    """Yield the entries of the fat binaries in a section."""
    place, end = section.offset, section.offset + section.size
    count = 0
    while place + 16 <= end:
        magic, _, header, size = struct.unpack_from("<IHHQ", data, place)
        if magic != _CUDA_MAGIC:
            place += 8  # padding: a fat binary begins at a multiple of 8
            continue
        last = place + header + size
        if header < 16 or last > end:
            raise AuditError(f"a fat binary in {section.name} is damaged: it ends outside of its section")
        entry = place + header
        while entry + 48 <= last:
            kind, _, entry_header, entry_size = struct.unpack_from("<HHIQ", data, entry)
            minor, major, number = struct.unpack_from("<HHI", data, entry + 24)
            (flags,) = struct.unpack_from("<Q", data, entry + 40)
            count += 1
            if entry_header < 48 or count > _MOST_ENTRIES:
                raise AuditError(
                    f"a fat binary in {section.name} is damaged: an entry has a header of {entry_header} bytes"
                )
            if kind in {_PTX, _CUBIN}:
                suffix: Suffix = "f" if flags & _IS_FAMILY else "a" if flags & _IS_SPECIFIC else ""
                yield _Entry(kind, (number // 10, number % 10, suffix), (major, minor))
            entry += entry_header + entry_size
        place = last
