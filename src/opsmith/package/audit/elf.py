"""Defines what an ELF file says to a dynamic loader: its needs, its symbols with their versions, and its sections."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import Literal

__all__ = ["MAGIC", "Bytes", "Elf", "Section", "Symbol", "is_elf", "is_read"]

# A file's bytes, in memory or mapped into it.
Bytes = bytes | mmap.mmap

MAGIC = b"\x7fELF"


@dataclass(frozen=True)
class Symbol:
    """A symbol of the dynamic table. An undefined one names the version and the library that it is bound to, if any."""

    name: str
    is_defined: bool
    is_weak: bool
    is_unique: bool = False
    version: str = ""
    library: str = ""


@dataclass(frozen=True)
class Section:
    """A section: its place in the file, and what it is for. `size` is 0 in the file for one without bytes there."""

    name: str
    offset: int
    size: int
    is_loaded: bool
    is_code: bool


@dataclass(frozen=True)
class Elf:
    """What a file promises and needs. `static_names` are the names of its static symbol table, unless it is stripped."""

    machine: str
    kind: Literal["object", "program", "library"]
    soname: str
    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    runpath: tuple[str, ...]
    symbols: tuple[Symbol, ...]
    versions: tuple[tuple[str, str], ...]  # library, version: what the loader looks for before any symbol
    sections: tuple[Section, ...]
    static_names: tuple[str, ...]
    is_stripped: bool
    has_debug_info: bool
    has_executable_stack: bool


def is_elf(start: bytes) -> bool:
    """Tell by its first bytes whether a file is an ELF file."""
    return start.startswith(MAGIC)


def is_read(start: Bytes) -> bool:
    """Tell whether an ELF file is of the kind that is read: 64 bits, little-endian."""
    return start[4:6] == b"\x02\x01"
