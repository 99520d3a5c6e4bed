"""The program that compiles kernels ahead: what it writes beside the object."""

from __future__ import annotations

from pathlib import Path

from opsmith.build.ahead.compile_kernels.command import _write_depfile
from opsmith.store.depfile import depfile_text, read_depfile

NAMES = (
    "/plain.py",
    "/a b.py",
    "/a#b.py",
    "/a$b.py",
    "/a:b.py",
    "/c: d.py",
    "/a\\b.py",
    "/a\\ b.py",
    "/end\\",
    "/\udcff",
)


def test_every_file_of_the_dependency_file_is_read_back(tmp_path: Path) -> None:
    file = tmp_path / "kernel.d"
    _write_depfile(file, Path("a b.o"), NAMES)
    assert read_depfile(file, cwd=tmp_path) == tuple(map(Path, NAMES))
    theirs = depfile_text("a b.o", map(Path, NAMES)).replace(" \\\n", "")
    assert file.read_text(errors="surrogateescape") == theirs
