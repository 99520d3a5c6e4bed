"""What editors get of a build: a database that compiles each source as the build does, and stubs that checkers obey."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from opsmith.build.compile_commands import DATABASE, merge_database
from opsmith.build.editor import publish_entries
from opsmith.build.typings import add_typings
from opsmith.cli.editor import command
from opsmith.cpp_extension import load
from opsmith.errors import BuildError, CompileError
from opsmith.store import Store

pytestmark = pytest.mark.compile

_SOURCE = """
#include "value.h"
extern "C" int answer() { return VALUE; }
"""


def read(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text())  # type: ignore[no-any-return]


def check_entry(entry: dict[str, Any], compiler: str | None = None) -> None:
    """Let a compiler, or another one, parse the file as the database says."""
    words = [compiler or entry["arguments"][0], *entry["arguments"][1:], "-fsyntax-only"]
    done = subprocess.run(words, cwd=entry["directory"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "include").mkdir()
    (folder / "include" / "value.h").write_text("#define VALUE 42\n")
    # What the session's store has already is not built, and only a build is told of.
    (folder / "answer.cpp").write_text(f"{_SOURCE}// {tmp_path}\n")
    return folder / "answer.cpp"


def build(source: Path) -> None:
    include = [str(source.parent / "include")]
    load("editor_answer", [str(source)], extra_include_paths=include, is_python_module=False)


def test_each_build_merges_into_the_folder_that_is_asked_for(source, tmp_path, monkeypatch):
    monkeypatch.setenv("OPSMITH_COMPILE_COMMANDS", str(tmp_path / "commands"))
    build(source)
    (entry,) = read(tmp_path / "commands" / DATABASE)
    assert entry["file"] == str(source)
    assert Path(entry["directory"]).is_dir()
    check_entry(entry)
    # Found in the store, it is told again: the folder may be a new one.
    monkeypatch.setenv("OPSMITH_COMPILE_COMMANDS", str(tmp_path / "again"))
    build(source)
    assert read(tmp_path / "again" / DATABASE) == [entry]
    assert sorted(path.name for path in source.parent.iterdir()) == ["answer.cpp", "include"]


def test_a_source_that_does_not_compile_is_there_too(source, tmp_path, monkeypatch):
    monkeypatch.setenv("OPSMITH_COMPILE_COMMANDS", str(tmp_path / "commands"))
    source.write_text(_SOURCE + "int broken = nothing;\n")
    with pytest.raises(CompileError):
        build(source)
    assert [entry["file"] for entry in read(tmp_path / "commands" / DATABASE)] == [str(source)]


def test_clang_reads_the_database(source, tmp_path, monkeypatch):
    clang = shutil.which("clang++")
    if clang is None:
        pytest.skip("there is no clang++")
    monkeypatch.setenv("OPSMITH_COMPILE_COMMANDS", str(tmp_path / "commands"))
    build(source)
    check_entry(read(tmp_path / "commands" / DATABASE)[0], clang)


def test_the_command_knows_what_load_has_built(source, tmp_path):
    build(source)
    result = CliRunner().invoke(
        command, [str(source.parent), "--commands", str(tmp_path / "c"), "--typings", str(tmp_path / "t"), "--json"]
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["files"] == [str(source)]


def test_a_view_kernel_and_what_is_generated_around_it_parse(project, tmp_path):
    result = CliRunner().invoke(
        command, [str(project), "--commands", str(tmp_path / "c"), "--typings", str(tmp_path / "typings")]
    )
    assert result.exit_code == 0, result.output
    entries = {Path(entry["file"]).name: entry for entry in read(tmp_path / "c" / DATABASE)}
    user = entries["scale.cpp"]
    assert user["file"] == str(project / "user_scale" / "kernels" / "scale.cpp")
    for entry in entries.values():
        if not entry["file"].endswith((".cu", ".hip")):
            check_entry(entry)
    assert "scale: _scale" in (tmp_path / "typings" / "torch-stubs" / "_ops_of_user_scale.pyi").read_text()


def test_entries_of_others_stay_and_ours_are_replaced(tmp_path):
    path = tmp_path / DATABASE
    theirs = {"directory": str(tmp_path), "file": "other.cpp", "command": "c++ -c other.cpp"}
    old = {"directory": str(tmp_path), "file": str(tmp_path / "a.cpp"), "arguments": ["c++", "-O0"]}
    path.write_text(json.dumps([theirs, old]))
    new = {"directory": "/", "file": str(tmp_path / "a.cpp"), "arguments": ["c++", "-O3"]}
    assert merge_database(path, [new]) == [theirs, new]


def test_a_file_that_is_not_a_database_stays_unchanged(tmp_path):
    (tmp_path / DATABASE).write_text('{"mine": 1}')
    with pytest.raises(BuildError, match="left unchanged"):
        publish_entries([], tmp_path, Store(tmp_path / "store"))
    assert (tmp_path / DATABASE).read_text() == '{"mine": 1}'


def test_a_database_is_merged_on_a_file_system_without_locks(tmp_path, monkeypatch):
    def no_lock(*_):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", no_lock)
    entry = {"directory": "/", "file": str(tmp_path / "a.cpp"), "arguments": ["c++"]}
    database = publish_entries([entry], tmp_path, Store(tmp_path / "store"))
    assert read(database) == [entry]
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [DATABASE]


def test_stubs_of_one_namespace_from_several_builds_are_kept(tmp_path):
    for text in ('demo::a(str mode="\\"x") -> Tensor', "demo::b(Tensor x) -> Tensor", "demo::b(int x) -> Tensor"):
        add_typings({"demo": [torch._C.parse_schema(text)]}, tmp_path)
    stub = (tmp_path / "torch-stubs" / "_ops_of_demo.pyi").read_text()
    assert "    a: _a\n    b: _b\n" in stub
    assert "x: int" in stub
    assert "x: Tensor" not in stub


_REGISTERED = """
#include <torch/library.h>
at::Tensor scaled(const at::Tensor& x, double factor) { return x; }
TORCH_LIBRARY(editor_stub, m) { m.def("scaled(Tensor x, float factor=2.0) -> Tensor", &scaled); }
"""

_USE = """
import torch
x = torch.ones(3)
y = torch.ops.editor_stub.scaled(x, 1.5)
reveal_type(y)
reveal_type(torch.ops.editor_stub.scaled.default(x))
torch.ops.editor_stub.scaled(x, "wrong")
torch.ops.editor_stub.scaled()
torch.ops.aten.relu(x)
torch.nn.Linear(2, "wrong")
"""


@pytest.mark.nightly("mypy over torch")
def test_mypy_flags_a_wrong_argument_of_an_operator(tmp_path, monkeypatch):
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    monkeypatch.setenv("OPSMITH_TYPINGS", str(tmp_path / "typings"))
    (tmp_path / "library.cpp").write_text(_REGISTERED)
    load("editor_stub_library", [str(tmp_path / "library.cpp")], is_python_module=False)
    (tmp_path / "use.py").write_text(_USE)
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "typings")}
    argv = [sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir", tmp_path / "cache", "use.py"]
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert [
        line.partition(": ")[2].partition("  [")[0] for line in lines if "note" not in line or "Revealed" in line
    ] == [
        'note: Revealed type is "torch._tensor.Tensor"',
        'note: Revealed type is "torch._tensor.Tensor"',
        'error: Argument 2 to "__call__" of "_scaled" has incompatible type "str"; expected "float"',
        'error: Missing positional argument "x" in call to "__call__" of "_scaled"',
        # All the rest of torch is typed as ever.
        'error: Argument 2 to "Linear" has incompatible type "str"; expected "int"',
    ]


def test_a_damaged_stub_is_written_anew(tmp_path):
    add_typings({"demo": [torch._C.parse_schema("demo::f(Tensor x) -> Tensor")]}, tmp_path)
    (stub,) = tmp_path.rglob("*demo*.pyi")
    stub.write_bytes(stub.read_bytes() + b"# \xff\n")
    add_typings({"demo": [torch._C.parse_schema("demo::g(Tensor x) -> Tensor")]}, tmp_path)
    assert "demo::f(" in stub.read_text(encoding="utf-8")
    assert "demo::g(" in stub.read_text(encoding="utf-8")
