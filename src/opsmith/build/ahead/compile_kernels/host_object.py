"""Adapts the object that CuTe DSL makes of a kernel: its names become ours, and no other library sees them.

An object is an ELF file of 64 bits, little-endian; its format is in https://refspecs.linuxfoundation.org/elf/gabi4+.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

__all__ = ["adapt", "undefined"]

_MAGIC = b"\x7fELF\x02\x01"
_SECTIONS_AT, _SECTION_SIZE_AT, _SECTION_COUNT_AT = 0x28, 0x3A, 0x3C
# Name, type, flags, address, offset, size, link, info, alignment, size of an entry.
_SECTION = struct.Struct("<IIQQQQIIQQ")
_OFFSET_IN_SECTION = 24
_SYMBOL_TABLE = 2
# Name, information, visibility, section.
_SYMBOL = struct.Struct("<IBBH")
_SYMBOL_SIZE = 24
_LOCAL, _HIDDEN, _UNDEFINED = 0, 2, 0
# The linker's own.
_LINKERS = "_GLOBAL_OFFSET_TABLE_"


@dataclass(frozen=True)
class _Symbol:
    """A symbol that is not local: where it stands in the file, and what it says."""

    offset: int
    name: str
    information: int
    is_defined: bool


@dataclass(frozen=True)
class _Symbols:
    """The symbols of an object, and where the section with their names is described and lies."""

    found: tuple[_Symbol, ...]
    names_header: int
    names: bytes


def undefined(data: bytes) -> list[str]:
    """Return the names that an object needs of others. Raises ValueError for what is no such object."""
    return [symbol.name for symbol in _read(data).found if not symbol.is_defined and symbol.name != _LINKERS]


def adapt(data: bytes, names: Mapping[str, str]) -> bytes:
    """Return an object with other names for some symbols, and all that it defines or has renamed hidden."""
    symbols = _read(data)
    changed = bytearray(data)
    text = bytearray(symbols.names)
    for symbol in symbols.found:
        if not symbol.is_defined and symbol.name not in names:
            continue
        place = _SYMBOL.unpack_from(data, symbol.offset)[0]
        if new := names.get(symbol.name):
            place = len(text)
            text += new.encode() + b"\0"
        struct.pack_into("<IBB", changed, symbol.offset, place, symbol.information, _HIDDEN)
    # The names lie where they did, and more of them, at the end of the file.
    changed += b"\0" * (-len(changed) % 8)
    struct.pack_into("<QQ", changed, symbols.names_header + _OFFSET_IN_SECTION, len(changed), len(text))
    return bytes(changed + text)


def _read(data: bytes) -> _Symbols:
    if not data.startswith(_MAGIC):
        raise ValueError("it is no ELF file of 64 bits")
    (start,) = struct.unpack_from("<Q", data, _SECTIONS_AT)
    (size,) = struct.unpack_from("<H", data, _SECTION_SIZE_AT)
    (count,) = struct.unpack_from("<H", data, _SECTION_COUNT_AT)
    for index in range(count):
        section = _SECTION.unpack_from(data, start + index * size)
        if section[1] == _SYMBOL_TABLE:
            names_header = start + section[6] * size
            names = _SECTION.unpack_from(data, names_header)
            text = data[names[4] : names[4] + names[5]]
            return _Symbols(tuple(_symbols(data, section[4], section[5], text)), names_header, text)
    raise ValueError("it has no symbols")


def _symbols(data: bytes, offset: int, size: int, names: bytes) -> Iterator[_Symbol]:
    for place in range(offset + _SYMBOL_SIZE, offset + size, _SYMBOL_SIZE):
        name, information, _, section = _SYMBOL.unpack_from(data, place)
        if information >> 4 != _LOCAL:
            text = names[name : names.index(b"\0", name)].decode()
            yield _Symbol(place, text, information, section != _UNDEFINED)
