"""ELF files are read as readelf reads them, and damaged ones are refused in words: no exception but AuditError, no hang."""

from __future__ import annotations

import _ctypes
import random
import re
import struct
import subprocess
from pathlib import Path

import pytest
from make_library import SHIMS, library

from compilers import find_compiler
from opsmith.errors import AuditError
from opsmith.package.audit.elf_reader import parse_elf, read_elf
from opsmith.package.audit.floors import find_floors
from opsmith.package.audit.library import describe_library

STUBS = (("libtorch_cpu.so", "", ()), ("libc.so.6", "GLIBC_2.34", ("new_in_libc",)))


def test_needs_symbols_and_versions_are_read():
    elf = parse_elf(library(calls=(*SHIMS, "new_in_libc"), stubs=STUBS, flags=("-Wl,-rpath,$ORIGIN:/x",)))
    assert elf.needed == ("libtorch_cpu.so", "libc.so.6")
    assert elf.rpath + elf.runpath == ("$ORIGIN", "/x")
    assert (elf.machine, elf.kind, elf.is_stripped, elf.has_debug_info) == ("x86_64", "library", False, False)
    undefined = {symbol.name: (symbol.library, symbol.version) for symbol in elf.symbols if not symbol.is_defined}
    assert undefined["new_in_libc"] == ("libc.so.6", "GLIBC_2.34")
    assert undefined["torch_library_impl"] == ("", "")
    assert ("libc.so.6", "GLIBC_2.34") in elf.versions
    assert "opsmith_test_entry" in {symbol.name for symbol in elf.symbols if symbol.is_defined}


def test_a_stripped_library_without_section_headers_has_the_same_symbols():
    data = library(flags=("-s",))
    elf = parse_elf(data)
    assert elf.is_stripped
    headerless = bytearray(data)
    struct.pack_into("<Q", headerless, 40, 0)
    struct.pack_into("<HHH", headerless, 58, 0, 0, 0)
    assert parse_elf(bytes(headerless)).symbols == elf.symbols


def test_it_agrees_with_readelf_about_a_library_of_this_python(tmp_path):
    find_compiler("readelf")
    path = _ctypes.__file__
    shown = subprocess.run(["readelf", "--dyn-syms", "-W", path], capture_output=True, text=True, check=True).stdout
    expected = {
        line.split()[7].partition("@")[0] for line in shown.splitlines() if " UND " in line and len(line.split()) > 7
    }
    elf = read_elf(Path(path))
    assert {symbol.name for symbol in elf.symbols if not symbol.is_defined} == expected - {""}


def test_the_newest_version_of_several_counts(tmp_path):
    find_compiler("readelf")
    shown = subprocess.run(["readelf", "-V", "-W", _ctypes.__file__], capture_output=True, text=True, check=True).stdout
    versions = {tuple(map(int, text.split("."))) for text in re.findall(r"Name: GLIBC_([\d.]+)", shown)}
    assert len(versions) > 1
    found = describe_library("_ctypes.so", Path(_ctypes.__file__).read_bytes())
    assert find_floors([found]).glibc == max(versions)[:2]


@pytest.mark.parametrize("length", [0, 3, 4, 17, 63, 64, 100, 500, 2000, 5000])
def test_a_truncated_file_is_refused_in_words(length, tmp_path):
    file = tmp_path / "cut.so"
    file.write_bytes(library()[:length])
    with pytest.raises(AuditError, match=r"empty|ELF file"):
        read_elf(file)


@pytest.mark.parametrize(
    ("offset", "form", "value", "said"),
    [
        (4, "B", 1, "64 bits"),
        (16, "H", 77, "type is 77"),
        (32, "Q", 1 << 62, "points to byte"),
        (40, "Q", (1 << 63) + 5, "points to byte"),
        (56, "H", 65000, "claims 65,000 segments"),
        (60, "H", 60000, "claims 60,000 sections"),
    ],
)
def test_an_absurd_header_is_refused_in_words(offset, form, value, said):
    data = bytearray(library())
    struct.pack_into(f"<{form}", data, offset, value)
    with pytest.raises(AuditError, match=said):
        parse_elf(bytes(data))


def test_random_damage_is_refused_or_read_and_never_anything_else():
    random.seed(0)
    good = library(calls=(*SHIMS, "new_in_libc"), stubs=STUBS)
    headers = len(good) - 64 * 40
    refused = 0
    for _ in range(400):
        data = bytearray(good)
        for _ in range(random.randint(1, 4)):
            # Where the tables are: at the beginning and at the end.
            place = random.randrange(2000) if random.random() < 0.5 else random.randrange(headers, len(good))
            data[place] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
        try:
            describe_library("damaged.so", bytes(data))
        except AuditError as error:
            refused += 1
            assert str(error)
    assert 20 < refused < 400, refused
