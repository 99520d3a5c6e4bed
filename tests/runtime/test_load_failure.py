"""A library that does not load says why, what it was built against, and what to do."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from pathlib import Path

import pytest
import torch

from forks import python_c
from opsmith.errors import BuildError, LoadError
from opsmith.ops.add2 import add2
from opsmith.runtime.existing import import_library
from opsmith.runtime.load import load_library, obtain

CHANGED = 'namespace c10 { void vanished(); }\nextern "C" void f() { c10::vanished(); }\n'
# The loader looks for every symbol at once only where it is told to.
NOW = "-Wl,-z,now"


@pytest.fixture
def build(tmp_path: Path):
    """Compile a text into a library whose symbols nobody checks at link time."""

    def do(text: str) -> Path:
        source, library = tmp_path / "k.cpp", tmp_path / "k.so"
        source.write_text(text)
        subprocess.run(["g++", "-shared", "-fPIC", NOW, source, "-o", library], check=True)
        return library

    return do


@pytest.mark.compile
def test_a_symbol_of_another_torch_names_both(build, tmp_path):
    library = build(CHANGED)
    (tmp_path / "manifest.json").write_text(
        json.dumps({"torch_version": "2.11.0", "toolchain": {"host": "gcc version 14.2.0"}})
    )
    with pytest.raises(LoadError) as raised:
        load_library(library)
    text = str(raised.value)
    assert "k.so cannot be loaded: nothing defines c10::vanished()" in text
    assert "built against torch 2.11.0" in text
    assert f"The installed torch is {torch.__version__}" in text
    assert "gcc version 14.2.0" in text
    assert "pip install --no-build-isolation" in text


@pytest.mark.compile
def test_without_a_manifest_nothing_is_invented(build, tmp_path):
    library = build(CHANGED)
    (tmp_path / "k.json").write_text("{damaged")
    with pytest.raises(LoadError) as raised:
        load_library(library)
    assert "built against torch" not in str(raised.value).replace("built against, or", "")
    assert "None" not in str(raised.value)


@pytest.mark.compile
def test_a_library_that_is_no_module_of_that_name(build):
    with pytest.raises(LoadError, match=r"no PYBIND11_MODULE.*\n.*is_python_module=False"):
        import_library("k", build("int a;\n"))


def test_a_truncated_library(tmp_path):
    library = tmp_path / "k.so"
    library.write_bytes(b"\x7fELF")
    with pytest.raises(LoadError, match="truncated"):
        load_library(library)


@pytest.mark.compile
@pytest.mark.parametrize(
    ("needed", "version", "words", "command"),
    [
        ("libc.so.6", "GLIBC_2.99", "it needs GLIBC_2.99, but this system's C library is older", "--no-binary"),
        ("libcublas.so.7", "ANY_1", "built against libcublas.so.7, which is not installed", "pip install"),
    ],
)
def test_what_this_system_lacks_is_said_with_a_command(
    tmp_path: Path, needed: str, version: str, words: str, command: str
) -> None:
    """What the loader itself says: a glibc of a newer system, and the library of another CUDA."""
    stub, source, library = tmp_path / needed, tmp_path / "k.c", tmp_path / "k.so"
    script = tmp_path / "stub.map"
    script.write_text(f"{version} {{ global: *; }};\n")
    source.write_text("void missing(void) {}\n")
    flags = ["-shared", "-fPIC", "-nostdlib", f"-Wl,-soname,{needed}"]
    subprocess.run(["gcc", *flags, f"-Wl,--version-script={script}", source, "-o", stub], check=True)
    source.write_text("void missing(void);\nvoid f(void) { missing(); }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-nostdlib", NOW, source, stub, "-o", library], check=True)
    stub.unlink()
    with pytest.raises(LoadError) as raised:
        load_library(library)
    assert words in str(raised.value)
    assert command in str(raised.value)


TWICE = """
@opsmith.op(cpu="twice.cpp")
def twice(x: Float32[Tensor, "*n"]) -> Float32[Tensor, "*n"]:
    return x * 2
"""
TWICE_KERNEL = """#include <opsmith/kernel.h>

void twice(opsmith::View<const float, 1> x, opsmith::View<float, 1> out) {
  for (int64_t n = 0; n < x.size[0]; ++n) out(n) = 2 * x(n);
}
"""
DEFINED_TWICE = """
import sys, torch
from pathlib import Path
from opsmith.errors import BuildError, LoadError
from opsmith.ops.add2 import add2
from opsmith.runtime.load import load_library, obtain

taken = torch.library.Library(sys.argv[2], "FRAGMENT")
taken.define("twice(Tensor x) -> Tensor")
for _ in range(2):
    try:
        load_library(Path(sys.argv[1]))
    except LoadError as error:
        print(error)
"""


@pytest.mark.compile
def test_what_pytorch_refuses_while_a_library_loads_is_raised(package):
    """An exception of a static initialiser would end the process; definitions are what is checked before."""
    before = set(torch.ops.loaded_libraries)
    module = package(TWICE, twice__cpp=TWICE_KERNEL)
    module.twice(torch.ones(1))
    (library,) = torch.ops.loaded_libraries - before
    ended = python_c(DEFINED_TWICE, [library, module.__name__], env=os.environ)
    assert ended.returncode == 0, ended.stderr
    words = f"{library} cannot be loaded: PyTorch does not take twice(Tensor x) -> Tensor"
    assert ended.stdout.count(words) == 2
    assert "multiple times" in ended.stdout + ended.stderr


def test_what_the_system_refuses_names_the_operators(monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("opsmith.runtime.load.find_prebuilt", refuse)
    with pytest.raises(BuildError, match="add2: add2 can be neither found nor built") as raised:
        obtain("opsmith.ops.add2", [add2.definition])
    assert "ulimit -n" in str(raised.value)
    assert isinstance(raised.value.__cause__, OSError)
