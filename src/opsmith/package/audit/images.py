"""Reads which GPUs the kernels are for that opsmith has embedded, such as Triton's.

Each image in their section has a header, which build/ahead/compile_kernels/images.py writes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from opsmith.errors import AuditError
from opsmith.package.audit.elf import Bytes, Elf
from opsmith.toolchain.archs import CudaArch

__all__ = ["IMAGES_SECTION", "image_archs", "image_targets"]

IMAGES_SECTION = ".opsmith_images"

# A mark, the kind, the architecture, whether the code is for that one alone, and the size.
_HEADER = struct.Struct("<8sIIIxxxxQ")
_MARK = b"OPSMITHK"
_PTX, _CUBIN, _AMD = 1, 2, 3
_ALIGNMENT = 16


def image_archs(data: Bytes, elf: Elf) -> Iterator[CudaArch]:
    """Yield the architecture of each image for NVIDIA's GPUs. Raises AuditError if their section is damaged."""
    for kind, number, is_exact in _images(data, elf):
        if kind != _AMD:
            yield CudaArch(number // 10, number % 10, "a" if is_exact else "", sass=kind == _CUBIN, ptx=kind == _PTX)


def image_targets(data: Bytes, elf: Elf) -> Iterator[str]:
    """Yield the target of each image for AMD's GPUs, such as gfx90a: the digits of its number are hexadecimal."""
    for kind, number, _ in _images(data, elf):
        if kind == _AMD:
            yield f"gfx{number:x}"


def _images(data: Bytes, elf: Elf) -> Iterator[tuple[int, int, bool]]:
    """Yield the kind and the architecture of each image, and whether it is for that one alone."""
    for section in elf.sections:
        if section.name != IMAGES_SECTION:
            continue
        place, end = section.offset, section.offset + section.size
        while place + _HEADER.size <= end:
            mark, kind, number, is_exact, size = _HEADER.unpack_from(data, place)
            following = place + _HEADER.size + size
            if mark != _MARK or kind not in (_PTX, _CUBIN, _AMD) or following > end:
                raise AuditError(f"the kernels in {IMAGES_SECTION} are damaged")
            yield kind, number, bool(is_exact)
            # Images lie at multiples of 16 bytes from where the section begins; another operator's begin there, too.
            place = following + (section.offset - following) % _ALIGNMENT
