"""Finds what a library's text constants tell: schemas that it registers, their namespaces, and paths of the build machine.

A schema is a string literal in every way to register one from C++, so it lies in a section of constants as it was
written. Where a compiler has copied a literal into instructions, or text is put together at run time, it is not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from opsmith.package.audit.elf import Bytes, Elf, Section
from opsmith.package.audit.images import IMAGES_SECTION
from opsmith.package.audit.schemas import Schema, parse_schema

__all__ = ["build_paths", "find_namespaces", "find_schemas", "qualified_names"]

# The longest schema of PyTorch itself has 1,900 characters.
_LONGEST = 8_000
_MOST_CANDIDATES = 200_000
_MOST_PATHS = 200

# Neither code nor constants of the host program.
_SKIPPED = (
    ".nv_fatbin",
    "__nv_relfatbin",
    ".hip_fatbin",
    IMAGES_SECTION,
    ".eh_frame",
    ".gcc_except_table",
    ".dynstr",
    ".dynsym",
    ".rela",
    ".gnu",
)

_ARROW = re.compile(rb"\) ?-> ?")
_TEXT = frozenset(range(0x20, 0x7F)) | {0x09, 0x0A}

# The macros of torch/library.h and torch/csrc/stable/library.h make functions and objects of these names.
_STATIC_INIT = re.compile(r"(STABLE_)?TORCH_LIBRARY_(FRAGMENT_)?(?:static_)?init_([A-Za-z]\w*?)(?:_\d+|\.|$|Rk|RN|v\b)")
_QUALIFIED = re.compile(rb"(?<![\w:])([A-Za-z_]\w{0,80})::([A-Za-z_]\w{0,120})(?=\x00)")

# Folders that a system has too are left out: /usr/include names no machine.
_PATH = re.compile(
    rb"(?<![\w.~-])/(?:home|root|tmp|var/tmp|work|workspace|build|builds|builddir|github|__w|Users|mnt|io|project|host|data|pytorch"
    rb"|opt/conda|opt/_internal|croot|src)"
    rb"/[\w.+@=,~/ -]{1,400}?\.(?:cpp|cuh?|cc|cxx|c|hpp|hh|h|inl|hip|rs|py|pyx|so)(?![\w])"
)


def find_schemas(data: Bytes, elf: Elf) -> tuple[Schema, ...]:
    """Return the schemas among a library's constants, each once, in the order of their names."""
    found: dict[str, Schema] = {}
    for text in _candidates(data, elf):
        schema = parse_schema(text)
        if schema is not None:
            found.setdefault(str(schema), schema)
    return tuple(found[text] for text in sorted(found))


def qualified_names(data: Bytes, elf: Elf) -> dict[str, set[str]]:
    """Return the namespaces of operators by name, from constants such as "smooth::lowpass"."""
    found: dict[str, set[str]] = {}
    for section in _constants(elf):
        for match in _QUALIFIED.finditer(data, section.offset, section.offset + section.size):
            found.setdefault(match[2].decode(), set()).add(match[1].decode())
    return found


def find_namespaces(elf: Elf) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the namespaces that a library claims as a whole (TORCH_LIBRARY), and those that it adds to (FRAGMENT).

    They are in the names of its symbols; a stripped library with hidden symbols does not tell.
    """
    whole: set[str] = set()
    added: set[str] = set()
    names: Iterable[str] = (*elf.static_names, *(symbol.name for symbol in elf.symbols if symbol.is_defined))
    for name in names:
        if "TORCH_LIBRARY_" in name and (match := _STATIC_INIT.search(name)):
            (added if match[2] else whole).add(match[3])
    return tuple(sorted(whole)), tuple(sorted(added - whole))


def build_paths(data: Bytes, elf: Elf) -> tuple[str, ...]:
    """Return the absolute paths of sources and libraries among a library's constants, each once."""
    found: dict[str, None] = {}
    for section in _constants(elf):
        for match in _PATH.finditer(data, section.offset, section.offset + section.size):
            found.setdefault(match[0].decode("ascii", errors="replace"))
            if len(found) >= _MOST_PATHS:
                return tuple(found)
    return tuple(found)


def _constants(elf: Elf) -> Iterator[Section]:
    for section in elf.sections:
        if section.is_loaded and not section.is_code and section.size and not section.name.startswith(_SKIPPED):
            yield section


def _candidates(data: Bytes, elf: Elf) -> Iterator[str]:
    """Yield each constant that has an arrow behind a parenthesis."""
    count = 0
    for section in _constants(elf):
        end = section.offset + section.size
        for arrow in _ARROW.finditer(data, section.offset, end):
            count += 1
            if count > _MOST_CANDIDATES:
                return
            stop = data.find(b"\0", arrow.end(), min(end, arrow.end() + _LONGEST))
            if stop < 0:
                continue
            first = data.rfind(b"\0", max(section.offset, arrow.start() - _LONGEST), arrow.start()) + 1
            # At the beginning of a section there is no zero before; elsewhere other bytes may stand before a literal.
            text = data[first or section.offset : stop]
            clean = next((at + 1 for at in range(len(text) - 1, -1, -1) if text[at] not in _TEXT), 0)
            if clean <= arrow.start() - (first or section.offset):
                yield text[clean:].decode("ascii")
