"""Reads which NVIDIA GPUs the kernels are for that opsmith has embedded, such as Triton's.

Each image in their section has a header, which build/ahead/compile_kernels/images.py writes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from opsmith.errors import AuditError
from opsmith.package.audit.elf import Bytes, Elf
from opsmith.toolchain.archs import CudaArch

__all__ = ["IMAGES_SECTION", "image_archs"]

IMAGES_SECTION = ".opsmith_images"

# A mark, whether it is PTX, the architecture, whether the code is for that one alone, and the size.
_HEADER = struct.Struct("<8sIIIxxxxQ")
_MARK = b"OPSMITHK"
_PTX, _MACHINE_CODE = 1, 2
_ALIGNMENT = 16


def image_archs(data: Bytes, elf: Elf) -> Iterator[CudaArch]:
    """Yield the architecture of each embedded image. Raises AuditError if their section is damaged."""
    for section in elf.sections:
        if section.name != IMAGES_SECTION:
            continue
        place, end = section.offset, section.offset + section.size
        while place + _HEADER.size <= end:
            mark, kind, number, is_exact, size = _HEADER.unpack_from(data, place)
            following = place + _HEADER.size + size
            if mark != _MARK or kind not in (_PTX, _MACHINE_CODE) or following > end:
                raise AuditError(f"the kernels in {IMAGES_SECTION} are damaged")
            yield CudaArch(
                number // 10, number % 10, "a" if is_exact else "", sass=kind == _MACHINE_CODE, ptx=kind == _PTX
            )
            # Images lie at multiples of 16 bytes from where the section begins; another operator's begin there, too.
            place = following + (section.offset - following) % _ALIGNMENT
