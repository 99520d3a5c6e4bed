"""The tables are whole: every function that opsmith's own libraries need is in them, and this torch exports it."""

from __future__ import annotations

import ctypes
import re
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import opsmith
from opsmith._torch_release import MINIMUM_TORCH, release_of
from opsmith.package.audit.tables import limited_api, policies
from opsmith.toolchain.shims import shim_table

INCLUDE = Path(opsmith.__file__).parent / "include" / "opsmith"


def test_every_function_that_opsmith_declares_is_in_the_table_and_in_the_oldest_torch():
    text = "\n".join(file.read_text(encoding="utf-8") for file in INCLUDE.glob("*.h"))
    called = set(re.findall(r"\b((?:aoti_torch|torch)_\w+)\s*\(", text))
    since = shim_table().since
    known = {name for name in called if name in since}
    assert len(known) > 30
    assert {name for name in called if name.startswith("aoti_torch_")} - known == set()
    # The text of an error is fetched where torch has it, by its address.
    later = {name for name in known if since[name] > MINIMUM_TORCH}
    assert later <= {"torch_exception_get_what", "torch_exception_get_what_without_backtrace"}, later


def test_this_torch_exports_what_the_table_says_of_it():
    release = release_of(torch.__version__)
    assert release is not None
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    # What is for a GPU is in its library, and what takes Python's objects in libtorch_python.
    elsewhere = re.compile(r"cuda|mps|xpu|sycl|pyobject")
    names = [name for name, since in shim_table().since.items() if since <= release and not elsewhere.search(name)]
    assert len(names) > 300
    assert [name for name in names if not hasattr(library, name)] == []


def test_the_table_covers_the_releases_that_opsmith_supports():
    table = shim_table()
    assert table.oldest < MINIMUM_TORCH
    assert table.newest >= (2, 15)
    assert table.since["torch_call_dispatcher"] == (2, 10)
    assert table.since["torch_from_blob"] == (2, 11)
    assert table.since["torch_library_set_python_module"] == (2, 13)


@pytest.mark.parametrize(
    ("name", "since"), [("PyObject_Call", (3, 2)), ("PyType_GetName", (3, 11)), ("Py_NewRef", (3, 10))]
)
def test_the_limited_api_is_that_of_python(name, since):
    assert limited_api().since[name] == since


def test_the_policies_grow():
    rows = policies("x86_64")
    assert [row.glibc for row in rows] == sorted(row.glibc for row in rows)
    assert rows[0].tag == "manylinux_2_5"
    assert all(newer.newest["GLIBCXX"] >= older.newest["GLIBCXX"] for older, newer in pairwise(rows))
    assert policies("no such machine") == ()
