"""Reads ELF files of 64 bits, little-endian.

Files may be damaged or hostile, so every offset and count is checked against the file before it is used. The format is
that of the System V ABI, chapters 4 and 5; the symbol versions are those of the Linux Standard Base, "Symbol Versioning".
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from opsmith.errors import AuditError
from opsmith.package.audit.elf import MAGIC, Bytes, Elf, Section, Symbol, is_read

__all__ = ["parse_elf", "read_elf"]

# A shared object has some dozens of sections and the largest known, libtorch_cpu, half a million symbols.
_MOST_SECTIONS = 5_000
_MOST_SEGMENTS = 1_000
_MOST_SYMBOLS = 4_000_000
_MOST_DYNAMIC = 10_000
_LONGEST_NAME = 1 << 16

_MACHINES = {3: "i686", 40: "armv7l", 62: "x86_64", 183: "aarch64", 21: "ppc64le", 22: "s390x", 243: "riscv64"}
_KINDS: dict[int, Literal["object", "program", "library"]] = {1: "object", 2: "program", 3: "library"}

_PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK = 1, 2, 0x6474E551
_SHT_SYMTAB, _SHT_NOBITS, _SHT_DYNSYM = 2, 8, 11
_DT_NEEDED, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 1, 5, 6, 10, 14, 15, 29
_DT_HASH, _DT_VERSYM, _DT_VERNEED, _DT_VERNEEDNUM, _DT_GNU_HASH = 4, 0x6FFFFFF0, 0x6FFFFFFE, 0x6FFFFFFF, 0x6FFFFEF5
_STB_WEAK, _STB_UNIQUE = 2, 10


def read_elf(path: Path) -> Elf:
    """Return what an ELF file says. Raises AuditError if it is not one or is damaged, and OSError."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            raise AuditError("it is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return parse_elf(data)


def parse_elf(data: Bytes) -> Elf:
    """Return what the bytes of an ELF file say. Raises AuditError if they are damaged."""
    try:
        return _Reader(data).read()
    except (struct.error, IndexError, OverflowError) as error:
        raise AuditError(f"the ELF file is damaged: {error}") from None


# A section with its type, the index of the section it is linked to, and the size of its entries.
_Row = tuple[Section, int, int, int]


class _Reader:
    def __init__(self, data: Bytes) -> None:
        if data[:4] != MAGIC:
            raise AuditError("it is not an ELF file")
        if len(data) < 64:
            raise AuditError(f"the ELF file is truncated: it has {len(data)} bytes, its header alone takes 64")
        if not is_read(data):
            raise AuditError("the ELF file is not one of 64 bits, little-endian; no others are read")
        self.data = data
        self.segments: list[tuple[int, int, int, int, int]] = []  # type, flags, offset, address, bytes in the file

    def read(self) -> Elf:
        kind, machine = self.unpack("HH", 16)
        if kind not in _KINDS:
            raise AuditError(f"the ELF file is not a library: its type is {kind}")
        self.segments = list(self._segments())
        sections = list(self._sections())
        dynamic = self._dynamic()
        names = self._string_table(dynamic)
        versions = self._needed_versions(dynamic, names)
        symbols = tuple(self._symbols(dynamic, names, sections, versions))

        def texts(tag: int) -> tuple[str, ...]:
            return tuple(self.text(names, value) for value in dynamic.get(tag, ()))

        static = [section for section in sections if section[1] == _SHT_SYMTAB]
        shown = tuple(section[0] for section in sections)
        return Elf(
            machine=_MACHINES.get(machine, f"machine {machine}"),
            kind=_KINDS[kind],
            soname="".join(texts(_DT_SONAME)[:1]),
            needed=texts(_DT_NEEDED),
            rpath=_split(texts(_DT_RPATH)),
            runpath=_split(texts(_DT_RUNPATH)),
            symbols=symbols,
            versions=tuple(sorted({(library, version) for version, library in versions.values()})),
            sections=shown,
            static_names=tuple(self._static_names(static[0], sections)) if static else (),
            is_stripped=not static,
            has_debug_info=any(section.name in {".debug_info", ".zdebug_info"} for section in shown),
            has_executable_stack=any(part[0] == _PT_GNU_STACK and part[1] & 1 for part in self.segments),
        )

    def unpack(self, form: str, offset: int) -> tuple[int, ...]:
        if offset < 0 or offset + struct.calcsize("<" + form) > len(self.data):
            raise AuditError(
                f"the ELF file is truncated or damaged: it points to byte {offset:,} and has {len(self.data):,}"
            )
        return struct.unpack_from("<" + form, self.data, offset)

    def slice(self, offset: int, size: int) -> bytes:
        if offset < 0 or size < 0 or offset + size > len(self.data):
            raise AuditError(
                f"the ELF file is truncated: a part of it ends at byte {offset + size:,}, the file at {len(self.data):,}"
            )
        return self.data[offset : offset + size]

    def text(self, table: bytes, start: int) -> str:
        end = table.find(b"\0", start, start + _LONGEST_NAME) if start < len(table) else -1
        if end < 0:
            raise AuditError("the ELF file is damaged: a name is not in its string table")
        return table[start:end].decode("utf-8", errors="replace")

    def offset_of(self, address: int) -> int:
        """Return where in the file lies what is loaded to an address."""
        for kind, _, offset, start, size in self.segments:
            if kind == _PT_LOAD and start <= address < start + size:
                return offset + address - start
        raise AuditError(f"the ELF file is damaged: nothing is loaded to address {address:#x}")

    def _segments(self) -> Iterator[tuple[int, int, int, int, int]]:
        (start,) = self.unpack("Q", 32)
        size, count = self.unpack("HH", 54)
        if count > _MOST_SEGMENTS or (count and size < 56):
            raise AuditError(f"the ELF file is damaged: it claims {count:,} segments of {size} bytes")
        for index in range(count):
            kind, flags, offset, address, _, in_file = self.unpack("IIQQQQ", start + index * size)
            yield kind, flags, offset, address, in_file

    def _sections(self) -> Iterator[_Row]:
        (start,) = self.unpack("Q", 40)
        size, count, names_index = self.unpack("HHH", 58)
        if start == 0 or (count == 0 and names_index == 0):
            return
        if count > _MOST_SECTIONS or size < 64 or names_index >= count:
            raise AuditError(f"the ELF file is damaged: it claims {count:,} sections of {size} bytes")
        rows = [self.unpack("IIQQQQIIQQ", start + index * size) for index in range(count)]
        _, kind, _, _, offset, length, *_ = rows[names_index]
        names = self.slice(offset, length) if kind != _SHT_NOBITS else b"\0"
        for name, kind, flags, _, offset, length, link, _, _, entry in rows:
            length_in_file = 0 if kind in {0, _SHT_NOBITS} else length
            if offset + length_in_file > len(self.data) and length_in_file:
                raise AuditError(
                    f"the ELF file is truncated: section {self.text(names, name)} ends at byte "
                    f"{offset + length_in_file:,}, the file at {len(self.data):,}"
                )
            yield (
                Section(self.text(names, name), offset, length_in_file, bool(flags & 2), bool(flags & 4)),
                kind,
                link,
                entry,
            )

    def _dynamic(self) -> dict[int, list[int]]:
        entries: dict[int, list[int]] = {}
        for kind, _, offset, _, size in self.segments:
            if kind != _PT_DYNAMIC:
                continue
            if size // 16 > _MOST_DYNAMIC:
                raise AuditError(f"the ELF file is damaged: it claims {size // 16:,} dynamic entries")
            for tag, value in struct.iter_unpack("<QQ", self.slice(offset, size - size % 16)):
                if tag == 0:
                    break
                entries.setdefault(tag, []).append(value)
        return entries

    def _string_table(self, dynamic: dict[int, list[int]]) -> bytes:
        if _DT_STRTAB not in dynamic or _DT_STRSZ not in dynamic:
            return b"\0"
        return self.slice(self.offset_of(dynamic[_DT_STRTAB][0]), dynamic[_DT_STRSZ][0])

    def _symbols(
        self,
        dynamic: dict[int, list[int]],
        names: bytes,
        sections: list[_Row],
        versions: dict[int, tuple[str, str]],
    ) -> Iterator[Symbol]:
        if _DT_SYMTAB not in dynamic:
            return
        start = self.offset_of(dynamic[_DT_SYMTAB][0])
        count = self._symbol_count(dynamic, sections)
        indices = self._version_indices(dynamic, count)
        table = self.slice(start, count * 24)
        for index, (name, info, _, section, _, _) in enumerate(struct.iter_unpack("<IBBHQQ", table)):
            if index == 0 or name == 0:
                continue
            version, library = versions.get(indices[index] & 0x7FFF, ("", "")) if indices else ("", "")
            binding = info >> 4
            is_defined = section != 0
            yield Symbol(
                self.text(names, name),
                is_defined,
                binding == _STB_WEAK,
                binding == _STB_UNIQUE,
                "" if is_defined else version,
                "" if is_defined else library,
            )

    def _symbol_count(self, dynamic: dict[int, list[int]], sections: list[_Row]) -> int:
        """Return how many dynamic symbols there are; the dynamic section itself does not say."""
        counts = [section.size // 24 for section, kind, _, _ in sections if kind == _SHT_DYNSYM]
        if counts:
            count = counts[0]
        elif _DT_HASH in dynamic:
            count = self.unpack("II", self.offset_of(dynamic[_DT_HASH][0]))[1]
        elif _DT_GNU_HASH in dynamic:
            count = self._gnu_hash_count(self.offset_of(dynamic[_DT_GNU_HASH][0]))
        else:
            count = 0
        if count > _MOST_SYMBOLS:
            raise AuditError(f"the ELF file is damaged: it claims {count:,} symbols")
        return count

    def _gnu_hash_count(self, start: int) -> int:
        """Return the number of symbols that a table of this kind implies: its last chain ends with an odd hash."""
        buckets, first, bloom, _ = self.unpack("IIII", start)
        if buckets > _MOST_SYMBOLS or bloom > _MOST_SYMBOLS:
            raise AuditError(f"the ELF file is damaged: its hash table claims {buckets:,} buckets")
        place = start + 16 + bloom * 8
        last = max(struct.unpack(f"<{buckets}I", self.slice(place, buckets * 4)), default=0)
        if last < first:
            return first
        chain = place + buckets * 4
        for index in range(last - first, _MOST_SYMBOLS):
            if self.unpack("I", chain + index * 4)[0] & 1:
                return first + index + 1
        raise AuditError("the ELF file is damaged: a chain of its hash table does not end")

    def _version_indices(self, dynamic: dict[int, list[int]], count: int) -> tuple[int, ...]:
        if _DT_VERSYM not in dynamic:
            return ()
        return struct.unpack(f"<{count}H", self.slice(self.offset_of(dynamic[_DT_VERSYM][0]), count * 2))

    def _needed_versions(self, dynamic: dict[int, list[int]], names: bytes) -> dict[int, tuple[str, str]]:
        """Return version and library by the index that symbols name them with."""
        found: dict[int, tuple[str, str]] = {}
        if _DT_VERNEED not in dynamic:
            return found
        place = self.offset_of(dynamic[_DT_VERNEED][0])
        for _ in range(min(dynamic.get(_DT_VERNEEDNUM, [0])[0], _MOST_DYNAMIC)):
            _, count, file, first, following = self.unpack("HHIII", place)
            entry = place + first
            for _ in range(count):
                _, _, index, name, step = self.unpack("IHHII", entry)
                found[index & 0x7FFF] = (self.text(names, name), self.text(names, file))
                if step == 0:
                    break
                entry += step
            if following == 0:
                break
            place += following
        return found

    def _static_names(self, table: _Row, sections: list[_Row]) -> Iterator[str]:
        section, _, link, _ = table
        if link >= len(sections):
            raise AuditError("the ELF file is damaged: its symbol table has no names")
        names = self.slice(sections[link][0].offset, sections[link][0].size)
        count = min(section.size // 24, _MOST_SYMBOLS)
        for name, *_ in struct.iter_unpack("<IBBHQQ", self.slice(section.offset, count * 24)):
            if name:
                yield self.text(names, name)


def _split(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part for path in paths for part in path.split(":"))
