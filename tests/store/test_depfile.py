"""Dependency files are read as Make reads them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsmith.store.depfile import depfile_text, parse_depfile, read_depfile

CWD = Path("/cwd")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("a.o:\n", []),
        ("a.o: a.cpp b.h\n", ["a.cpp", "b.h"]),
        ("a.o: a.cpp \\\n b.h \\\n  c.h", ["a.cpp", "b.h", "c.h"]),
        ("a.o: a.cpp \\\r\n b.h\r\n", ["a.cpp", "b.h"]),
        ("a.o : a.cu \\\n    b.h\n", ["a.cu", "b.h"]),  # nvcc puts a blank before the colon
        ("a.o: a.cpp b.h\n\nb.h:\n", ["a.cpp", "b.h"]),  # -MP
        ("a.o: a.cpp b.h\nc.o: b.h c.h\n", ["a.cpp", "b.h", "c.h"]),
        ("a.o: my\\ file.h b.h\n", ["my file.h", "b.h"]),
        ("my\\ a.o: b.h\n", ["b.h"]),
        ("a.o: odd\\\\\\ name.h\n", ["odd\\ name.h"]),
        ("a.o: ends\\\\ b.h\n", ["ends\\", "b.h"]),
        ("a.o: back\\slash.h\n", ["back\\slash.h"]),
        ("a.o: cost$$.h\n", ["cost$.h"]),
        ("a.o: c\\#.h\n", ["c#.h"]),
        ("a.o: c\\:d.h e:f.h\n", ["c:d.h", "e:f.h"]),
        ("d:e.o: f.h\n", ["f.h"]),
        ("a.o: /abs/x.h ./y.h\n", ["/abs/x.h", "y.h"]),
        ("a.o: x.h\ty.h\n", ["x.h", "y.h"]),
        ("a.o: ä.h\n", ["ä.h"]),
        ("a.o: x.h x.h /cwd/x.h\n", ["x.h"]),
    ],
)
def test_the_prerequisites_are_found(text, names):
    assert parse_depfile(text, cwd=CWD) == tuple(CWD / name for name in names)


def test_dots_and_links_are_kept(tmp_path: Path):
    assert parse_depfile("a.o: ../x/../y.h\n", cwd=CWD) == (Path("/cwd/../x/../y.h"),)


@pytest.mark.compile
def test_what_a_compiler_writes_is_read_back(tmp_path: Path):
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    names = ["plain.h", "two words.h", "hash#.h", "cost$.h", "back\\slash.h", "odd\\ blank.h", "co:lon.h"]
    for name in names:
        (tmp_path / name).touch()
    source = tmp_path / "a.cpp"
    source.write_text("".join(f'#include "{name}"\n' for name in names))
    subprocess.run([compiler, "-fsyntax-only", "-MD", "-MF", "a.d", "a.cpp"], cwd=tmp_path, check=True)
    assert set(read_depfile(tmp_path / "a.d", cwd=tmp_path)) >= {source, *(tmp_path / name for name in names)}


@given(st.lists(st.text("ab/ \\#:$\té", min_size=1).map(lambda name: Path("/x", name.lstrip("/")))))
def test_what_is_written_is_read_back(headers: list[Path]):
    assert parse_depfile(depfile_text("a b.o", headers), cwd=CWD) == tuple(dict.fromkeys(headers))
