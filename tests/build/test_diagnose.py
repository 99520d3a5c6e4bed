"""What a failed build says: the user's file and line, the compiler's words, and what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from opsmith.build.diagnose import explain_failure, find_messages
from opsmith.build.plan import Plan, Step
from opsmith.spec.extension import Extension, Source

_LINES = "#include <first.h>\n#include <second.h>\nint f() { return g(); }\n"
_TEXT = """#include <torch/extension.h>
// opsmith-text:cpp_sources[0]
int a;
// opsmith-text:cpp_sources[1]
int b
int c;
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """A plan of one file of the user's and one generated text."""
    file = tmp_path / "project" / "k.cu"
    file.parent.mkdir()
    file.write_text(_LINES)
    sources = (Source("k.cu", "gpu", "full", path=file, users=(file,)), Source("main.cpp", "cxx", "full", text=_TEXT))
    steps = (Step("k.cu", (), (), "k.cu.o", None, (file,)), Step("main.cpp", (), (), "main.cpp.o"))
    extension = Extension("mine", file.parent, sources, ("cpu",), include_dirs=(Path("/some/include"),))
    return Plan(extension, {"main.cpp": _TEXT}, steps, "mine.so", {})


def said(plan: Plan, output: str, step: str = "k.cu.o") -> str:
    return str(explain_failure(plan, f"FAILED: {step}\nnvcc -c ...\n{output}\nninja: build stopped.\n"))


def test_messages_of_all_compilers_are_read() -> None:
    output = "a.cpp:3:7: error: no g\n/x/k.cu(12): error: no h\nb.h:1: fatal error: gone\nc.cpp:9:1: warning: odd\n"
    assert [(m.file, m.line, m.column, m.text) for m in find_messages(output)] == [
        ("a.cpp", 3, 7, "no g"),
        ("/x/k.cu", 12, None, "no h"),
        ("b.h", 1, None, "gone"),
    ]


def test_own_error_shows_its_line_and_nothing_of_ninja(plan: Plan) -> None:
    text = said(plan, f'{plan.extension.root}/k.cu(3): error: identifier "g" is undefined')
    assert f'{plan.extension.root}/k.cu:3: identifier "g" is undefined' in text
    assert "int f() { return g(); }" in text
    assert "ninja" not in text
    assert "nvcc -c" not in text


def test_text_is_named_by_its_argument(plan: Plan) -> None:
    text = said(plan, "main.cpp:6:1: error: expected ';'", "main.cpp.o")
    assert "cpp_sources[1]:2:1: expected ';'" in text
    assert "2 | int c;" in text
    assert "int a" not in text
    # An error in what opsmith has written is told in full.
    assert "main.cpp:1:1: error: odd" in said(plan, "main.cpp:1:1: error: odd", "main.cpp.o")


def test_error_behind_an_include_is_told_at_that_include(plan: Plan) -> None:
    output = (
        f"In file included from /t/deep.h:4,\n                 from {plan.extension.root}/k.cu:2:\n"
        "/t/other.h:9:10: fatal error: c10/cuda/impl/cuda_cmake_macros.h: No such file or directory"
    )
    text = said(plan, output)
    assert f"{plan.extension.root}/k.cu:2: " in text
    assert "(in /t/other.h:9, which this leads to)" in text
    assert "built without CUDA" in text
    assert "Build against a CUDA build of torch" in text


def test_missing_header_advises_an_include_folder(plan: Plan) -> None:
    text = said(plan, f"{plan.extension.root}/k.cu:1:10: fatal error: first.h: No such file or directory")
    assert "Add the folder that has first.h to the include folders of mine (now: /some/include)" in text


def test_undefined_symbols_of_the_linker_are_named_once(plan: Plan) -> None:
    where = "k.cu:(.text+0x1): undefined reference to `g()'"
    output = f"k.o: in function `f':\n{where}\n{where}"
    assert "nothing defines g()." in said(plan, output, "mine.so")


def test_a_header_of_a_package_of_its_own_names_the_package(plan: Plan) -> None:
    text = said(plan, f"{plan.extension.root}/k.cu:1:10: fatal error: cusparse.h: No such file or directory")
    assert f"{plan.extension.root}/k.cu:1:10: cusparse.h: No such file or directory" in text
    assert re.search(r"`pip install 'cuda-toolkit\[cusparse\]", text)
    assert "include folders of mine" not in text


def test_a_killed_compiler_is_told_to_run_alone(plan: Plan) -> None:
    text = said(plan, "g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.")
    assert "ran out of memory" in text
    assert "export OPSMITH_JOBS=1" in text


def test_what_cannot_be_read_is_shown_as_it_is(plan: Plan) -> None:
    assert "cc1plus: out of memory" in said(plan, "cc1plus: out of memory")
