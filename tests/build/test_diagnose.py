"""What a failed build says: the user's file and line, the compiler's words, and what to do."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from opsmith.build.diagnose import explain_failure
from opsmith.build.messages import find_messages
from opsmith.build.plan import Plan, Step
from opsmith.errors import BuildError, CompileError, SignatureError
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


GCC = """k.cpp: In function 'void f()':
k.cpp:7:8: error: 'vector' is not a member of 'std'
    7 |   std::vector<float> v;
      |        ^~~~~~
k.cpp:2:1: note: 'std::vector' is defined in header '<vector>'; did you forget to '#include <vector>'?
  +++ |+#include <vector>
k.cpp:8:1: warning: unused
k.cpp:1:1: note: about the warning
"""
NVCC = """k.cu(10): error: no instance of overloaded function "two" matches the argument list
            argument types are: (int, float *, int)
    two(1, p, 3);
    ^
k.cu(5): note #3326-D: function "two(int, double *, int)" does not match because argument #2 does not match parameter
  void two(int a, double* b, int c);
       ^

k.cu(15): error: a value of type "float *" cannot be used to initialize an entity of type "double *"
                   T* q = p;
                          ^
          detected during instantiation of "void scale(T *) [with T=double]" at line 21

"""


def test_notes_belong_to_the_error_above_them() -> None:
    (error,) = find_messages(GCC)
    assert [(note.line, note.text) for note in error.notes] == [
        (2, "'std::vector' is defined in header '<vector>'; did you forget to '#include <vector>'?")
    ]


def test_what_nvcc_goes_on_to_say_is_kept_and_the_source_line_is_not() -> None:
    types, use = find_messages(NVCC)
    assert [(note.line, note.text.partition(" does")[0]) for note in types.notes] == [
        (10, "argument types are: (int, float *, int)"),
        (5, 'function "two(int, double *, int)"'),
    ]
    assert [note.text for note in use.notes] == [
        'detected during instantiation of "void scale(T *) [with T=double]" at line 21'
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


@pytest.mark.parametrize(
    ("header", "advice"),
    [
        ("opsmith/kernels.h", "opsmith has no header opsmith/kernels.h; did you mean opsmith/kernel.h?"),
        ("opsmith/unlike_any.h", "opsmith has no header opsmith/unlike_any.h"),
        ("torch/extension.h", "A kernel that needs tensors is native"),
        ("mine.h", "The kernels of mine find headers in /some/include: name it by its path from there"),
    ],
)
def test_a_header_that_a_view_kernel_cannot_have(plan: Plan, header: str, advice: str) -> None:
    output = f"{plan.extension.root}/k.cu:1:10: fatal error: {header}: No such file or directory"
    sources = tuple(replace(source, api="none") for source in plan.extension.sources)
    view = replace(plan, extension=replace(plan.extension, sources=sources))
    assert advice in said(view, output)
    if not header.startswith("opsmith"):  # an extension has PyTorch's folders, and lacks a header for another reason
        assert advice not in said(plan, output)


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


def test_notes_are_shown_below_the_error_with_the_line_they_are_about(plan: Plan) -> None:
    file = f"{plan.extension.root}/k.cu"
    text = said(plan, f"{file}:3:1: error: no g\n{file}:1:1: note: g is declared here\n{file}:3:2: note: too many")
    assert text.endswith(
        "        3 | int f() { return g(); }\n          | ^\n"
        "    note: g is declared here\n        1 | #include <first.h>\n    note: too many"
    )


def test_notes_on_the_users_text_come_before_those_on_headers(plan: Plan) -> None:
    file = f"{plan.extension.root}/k.cu"
    candidates = "".join(f"/usr/include/ostream:{line}:1: note: candidate {line}\n" for line in range(1, 51))
    assert "candidate 4 (/usr/include/ostream:4)\n    (46 more notes)" in said(
        plan, f"{file}:3:1: error: no g\n{candidates}"
    )
    text = said(plan, f"{file}:3:1: error: no g\n{candidates}{file}:1:1: note: do include it")
    assert "note: do include it" in text
    assert "candidate" not in text


KERNEL = "#include <opsmith/kernel.h>\nvoid scale(View<const float, 1> x) {}\n"
MISFIT = "opsmith-signature:scale:1:3: error: invalid 'static_cast' from type 'A' to type 'B'"


@pytest.fixture
def kernel_plan(tmp_path: Path) -> Plan:
    """A plan of one kernel, included by a generated file, and of a binding."""
    file = tmp_path / "scale.cpp"
    file.write_text(KERNEL)
    text = '#include "scale.cpp"\nnamespace opsmith::kernels {\n'
    sources = (Source("scale.cpu.cpp", "cxx", "none", text=text, users=(file,)),)
    steps = (
        Step("binding.cpp", (), ("binding.cpp",), "binding.cpp.o"),
        Step("scale.cpp", (), ("scale.cpu.cpp",), "scale.cpu.cpp.o", None, (file,)),
    )
    extension = Extension("mine", tmp_path, sources, ("cpu",))
    return Plan(extension, {"scale.cpu.cpp": text}, steps, "mine.so", {})


def explained(plan: Plan, output: str) -> BuildError:
    return explain_failure(plan, f"FAILED: scale.cpu.cpp.o\ng++ -c ...\n{output}\nninja: build stopped.\n")


def test_an_error_at_the_mark_is_a_misfit_of_the_step_that_says_it(kernel_plan: Plan) -> None:
    error = explain_failure(
        kernel_plan, f"FAILED: binding.cpp.o\ng++\nfirst\nFAILED: scale.cpu.cpp.o\ng++ -c ...\n{MISFIT}\n"
    )
    assert isinstance(error, SignatureError)
    assert vars(error)["step"] == kernel_plan.steps[1]


@pytest.mark.parametrize(
    ("output", "advice"),
    [
        # As g++ 12 and nvcc 13 say it, with a full TMPDIR, one without inodes, and `ulimit -n` and `-f`.
        (
            "opsmith-signature:scale:4:1: fatal error: error closing /tmp/ccS2sUd2.s: No space left on device",
            "no inodes left",
        ),
        ("opsmith-signature:scale:4:1: fatal error: what nobody knows", ""),
        ("scale.cpp:1:10: fatal error: opsmith/kernel.h: Too many open files", "RLIMIT_NOFILE"),
        ("Cannot create temporary file in /tmp/: No space left on device", "no inodes left"),
        ("cc1plus: fatal error: ./tbb/tbb.h: Too many open files", "RLIMIT_NOFILE"),
        ("g++: internal compiler error: File size limit exceeded signal terminated program cc1plus", "ulimit -f"),
        ("nvcc fatal   : Could not open output file '/tmp/tmpxft_0'", "cannot create /tmp/tmpxft_0"),
        ("nvcc fatal   : Failed to preprocess host compiler properties.", "temporary folder is full"),
        ("clang: error: unable to make temporary file: No space left on device", "no inodes left"),
        ("/usr/bin/ld: cannot find -lm: Too many open files", "RLIMIT_NOFILE"),
    ],
)
def test_what_is_wrong_with_the_machine_is_no_fault_of_the_kernel(kernel_plan: Plan, output: str, advice: str) -> None:
    error = explained(kernel_plan, output)
    assert type(error) is CompileError
    assert f"mine does not build. The compiler printed:\n\n{output}" in str(error)
    assert advice in str(error)
    assert "apt-get install libm-dev" not in str(error)


def test_an_error_in_the_kernel_comes_before_the_misfit_that_follows_from_it(kernel_plan: Plan) -> None:
    error = explained(kernel_plan, f"scale.cpp:2:12: error: 'View' was not declared in this scope\n{MISFIT}")
    assert type(error) is CompileError
    assert f"{kernel_plan.extension.root}/scale.cpp:2:12: 'View' was not declared" in str(error)


def test_an_error_behind_the_kernel_is_told_at_its_end(kernel_plan: Plan) -> None:
    output = (
        "scale.cpu.cpp:2:28: error: namespaces can only be defined in global or namespace scope\n"
        f"{MISFIT}\nopsmith-signature:scale:5:1: error: expected '}}'\nscale.cpp:2:39: note: to match this '{{'\n"
    )
    error = explained(kernel_plan, output)
    assert type(error) is CompileError
    assert "scale.cpp:2: namespaces can only be" in str(error)
    assert "is a brace or semicolon missing?" in str(error)
    assert "note: to match this '{'" in str(error)


def test_what_cannot_be_read_is_shown_as_it_is(plan: Plan) -> None:
    assert "cc1plus: out of memory" in said(plan, "cc1plus: out of memory")
