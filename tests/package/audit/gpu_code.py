"""Makes sections with GPU code for the audit's tests: entries as nvcc 13 writes them, and bundles as clang does."""

from __future__ import annotations

import struct
import zlib

__all__ = ["as_section", "bundle", "compressed_bundle", "fat_binary"]

PTX, CUBIN = 1, 2
# The flags of entries that nvcc 13.0 has written, by the suffix of the architecture.
_FLAGS = {"": 0x11, "a": 0x100011, "f": 0x200011}


def fat_binary(*archs: str, cubin: tuple[int, int] = (1, 8), ptx_isa: tuple[int, int] = (9, 0)) -> bytes:
    """Return a fat binary with empty code for architectures such as "90", "90a" and "90 PTX", of a version of each kind."""
    entries = b""
    for arch in archs:
        number, _, ptx = arch.partition(" ")
        digits = number.rstrip("af")
        kind = PTX if ptx else CUBIN
        major, minor = ptx_isa if ptx else cubin
        flags = _FLAGS[number[len(digits) :]]
        header = struct.pack("<HHIQIIHHIIIQQQ", kind, 257, 64, 16, 0, 0, minor, major, int(digits), 0, 0, flags, 0, 0)
        entries += header + bytes(16)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


def bundle(*targets: str) -> bytes:
    """Return an offload bundle with empty code for targets such as "gfx90a"."""
    names = ["host-x86_64-unknown-linux-gnu-", *(f"hipv4-amdgcn-amd-amdhsa--{target}" for target in targets)]
    body = b"".join(struct.pack("<QQQ", 4096, 0, len(name)) + name.encode() for name in names)
    return b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(names)) + body


def compressed_bundle(*targets: str, version: int = 2) -> bytes:
    """Return a bundle compressed by zlib, as a version of clang writes it."""
    body = bundle(*targets)
    packed = zlib.compress(body)
    sizes = {
        1: struct.pack("<IQ", len(body), 0),
        2: struct.pack("<IIQ", len(packed) + 24, len(body), 0),
        3: struct.pack("<QQQ", len(packed) + 32, len(body), 0),
    }[version]
    return b"CCOB" + struct.pack("<HH", version, 0) + sizes + packed


def as_section(name: str, data: bytes) -> str:
    """Return C code that puts bytes into a section."""
    words = ",".join(map(str, data))
    return f'__attribute__((used, section("{name}"), aligned(8))) const unsigned char gpu_code[] = {{{words}}};'
