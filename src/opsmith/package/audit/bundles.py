"""Reads which AMD GPUs the code in a library is for: clang's offload bundles, as they are or compressed.

The layout of both is in clang's documentation of clang-offload-bundler.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from opsmith.errors import AuditError
from opsmith.package.audit.elf import Bytes, Elf

__all__ = ["amd_targets"]

_SECTION = ".hip_fatbin"
_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED_MAGIC = b"CCOB"
# The shorter one may also be somewhere in machine code: bundles begin where the section does, or after padding.
_START = re.compile(_MAGIC + rb"|(?:\A|(?<=\0))" + _COMPRESSED_MAGIC)
# By the version of a compressed bundle: its header after magic, version and method, whose first number is the whole size
# where there are three.
_HEADERS = {1: "<IQ", 2: "<IIQ", 3: "<QQQ"}
_ZLIB, _ZSTD = 0, 1

_MOST_TARGETS = 1_000
_LONGEST_NAME = 1_000
# The targets stand at the beginning of a bundle, before the code.
_BEGINNING = 1 << 18


def amd_targets(data: Bytes, elf: Elf) -> tuple[tuple[str, ...], bool]:
    """Return the targets such as gfx90a in a library's bundles, and whether one is compressed by what this Python lacks.

    Raises AuditError if a bundle is damaged.
    """
    targets: set[str] = set()
    is_unread = False
    for section in elf.sections:
        if section.name != _SECTION:
            continue
        part = data[section.offset : section.offset + section.size]
        for bundle in _bundles(part):
            if bundle is None:
                is_unread = True
            else:
                targets.update(_targets(bundle))
    return tuple(sorted(targets)), is_unread


def _bundles(part: bytes) -> Iterator[bytes | None]:
    """Yield the beginning of each bundle in a section; None for one that cannot be decompressed here."""
    place = 0
    while found := _START.search(part, place):
        if found[0] == _MAGIC:
            yield part[found.start() : found.start() + _BEGINNING]
            place = found.end()
        else:
            bundle, place = _decompressed(part, found.start())
            yield bundle


def _decompressed(part: bytes, start: int) -> tuple[bytes | None, int]:
    """Return the beginning of a compressed bundle, and where it ends as far as it says so."""
    try:
        version, method = struct.unpack_from("<HH", part, start + len(_COMPRESSED_MAGIC))
        header = _HEADERS.get(version)
        if header is None or method not in {_ZLIB, _ZSTD}:
            return None, start + 8
        first, *_ = struct.unpack_from(header, part, start + 8)
    except struct.error:
        raise AuditError(f"a compressed bundle in {_SECTION} is truncated") from None
    begin = start + 8 + struct.calcsize(header)
    end = start + first if version > 1 else len(part)
    if not begin < end <= len(part):
        raise AuditError(f"a compressed bundle in {_SECTION} is damaged: it ends outside of its section")
    decompressor = _decompressor(method)
    if decompressor is None:
        return None, end if version > 1 else begin
    try:
        bundle: bytes = decompressor.decompress(part[begin:end], _BEGINNING)
    except Exception as error:  # zlib.error and zstd's own have no common base
        raise AuditError(f"a compressed bundle in {_SECTION} is damaged: {error}") from error
    if not bundle.startswith(_MAGIC):
        raise AuditError(f"a compressed bundle in {_SECTION} is damaged: it has no bundle inside")
    return bundle, end if version > 1 else begin


def _decompressor(method: int) -> Any:
    """Return what decompresses, or None where Python (before 3.14) has no zstd."""
    if method == _ZLIB:
        return zlib.decompressobj()
    for module in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(module).ZstdDecompressor()
        except ImportError:
            continue
    return None


def _targets(bundle: bytes) -> Iterator[str]:
    """Yield the targets of one bundle: entries such as hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-."""
    place = len(_MAGIC)
    try:
        (count,) = struct.unpack_from("<Q", bundle, place)
        place += 8
        if count > _MOST_TARGETS:
            raise AuditError(f"a bundle in {_SECTION} is damaged: it claims {count:,} entries")
        for _ in range(count):
            _, _, length = struct.unpack_from("<QQQ", bundle, place)
            if length > _LONGEST_NAME:
                raise AuditError(f"a bundle in {_SECTION} is damaged: a name of {length:,} bytes")
            name = bundle[place + 24 : place + 24 + length].decode("ascii", errors="replace")
            place += 24 + length
            if name.startswith("hip") and "--" in name:
                yield name.rpartition("--")[2]
    except struct.error:
        raise AuditError(f"a bundle in {_SECTION} is truncated") from None
