"""A text is explained by the entries that fit it, with the facts that are known and no others."""

from __future__ import annotations

import re
import time
import tracemalloc

import pytest

from opsmith.catalogue import Facts, explain
from opsmith.catalogue.candidates import _BLOCK_CHARACTERS
from opsmith.catalogue.packages import package_of_header, package_of_library
from some import some

CHANGED = "ImportError: /x/k.so: undefined symbol: _ZN3c104makeEv"


def ids(text: str) -> list[str]:
    return [explanation.id for explanation in explain(text)]


def test_nothing_known_explains_nothing():
    assert explain("k.cpp:3:7: error: expected ';' before 'return'") == ()
    assert explain("") == ()


def test_facts_make_the_cause_longer():
    bare = explain(CHANGED)[0]
    full = explain(CHANGED, Facts(torch="2.13.0", built_torch="2.11.0"))[0]
    assert "built against torch 2.11.0" in full.cause
    assert "installed torch is 2.13.0" in full.cause
    assert "pip install torch==2.11.0" in full.remedy
    assert not re.search(r"2\.1[13]", bare.text)
    assert bare.cause and bare.remedy


def test_a_symbol_is_made_readable():
    assert "needs c10::make()," in explain(CHANGED, demangle=lambda symbol: "c10::make()")[0].cause


def test_the_first_entry_that_fits_a_line_counts_alone():
    assert ids("undefined symbol: cudaMalloc") == ["cuda-runtime-symbol"]
    assert ids("undefined symbol: helper") == ["undefined-symbol"]


@pytest.mark.parametrize(
    "line",
    [
        "/usr/bin/perl: error while loading shared libraries: libm.so.6: cannot open shared object file: Error 24",
        "OSError: libm.so.6: cannot open shared object file: Too many open files",
        "ImportError: libc10.so: cannot open shared object file: Too many open files",
        "/usr/bin/ld: cannot find -lm: Too many open files",
        "/usr/bin/ld: cannot find -lcudart: Too many open files",
        "cc1plus: fatal error: ./tbb/tbb.h: Too many open files",
        "OSError: [Errno 24] Too many open files",
    ],
)
def test_a_file_that_cannot_be_opened_any_more_is_not_missing(line):
    assert ids(line) == ["open-files"]


@pytest.mark.parametrize(
    "line",
    [
        "ImportError: libpng.so: cannot open shared object file: Permission denied",
        "/usr/bin/ld: cannot find -lpng: Permission denied",
    ],
)
def test_a_library_that_may_not_be_read_is_not_said_to_be_missing(line):
    assert ids(line) == []


@pytest.mark.parametrize("line", ["ld: cannot find -lpng", "ld: cannot find -lpng: No such file or directory"])
def test_a_missing_library_is_missing_in_old_and_new_words(line):
    assert ids(line) == ["no-library"]


@pytest.mark.parametrize(
    "text",
    [
        "k.cpp:2:17: error: ‘opsmith’ is not a namespace-name",
        "k.cpp:2:17: error: expected namespace name\nusing namespace opsmith;",
        "k.cu(2): error: name must be a namespace name\n  using namespace opsmith;",
        "k.cpp:2:12: error: ‘View’ was not declared in this scope; did you mean ‘opsmith::View’?",
        "k.cpp:5:12: error: no template named 'View'; did you mean 'opsmith::View'?",
        'k.cu(5): error: identifier "View" is undefined\n  void scale(View<const T, 1> x, View<T, 1> out) {',
    ],
)
def test_a_kernel_that_does_not_know_opsmiths_names(text):
    """As g++ 12, clang++ 14 and nvcc 13 say it, without the header and without `using namespace opsmith`."""
    assert ids(text) == ["kernel-names"]


def test_a_view_of_another_library_is_not_ours():
    assert ids('k.cu(5): error: identifier "View" is undefined\n  void f(View<float> x) {') == []


def test_explanations_come_in_the_order_of_the_text_and_once():
    text = "ld: cannot find -lpng\nld: cannot find -ljpeg\ng++: fatal error: Killed signal terminated program cc1plus\n"
    assert ids(text) == ["no-library", "compiler-killed"]


def test_the_line_that_an_explanation_is_about():
    assert explain(f"a\n{CHANGED}\nb")[0].line == CHANGED


def test_explanations_of_one_line_are_one_however_often_it_comes():
    assert ids("ld: cannot find -lcudart\n" * 3 + "ld: cannot find -lcublas\n") == ["no-cudart-library"]


LOG = "g++ -c k.cpp\n" * 500 + CHANGED + "\n" + "k.cpp:1:2: error: no\n" * 500 + "ld: cannot find -lpng\n"
SEVERAL_LINES = (
    'k.cu(4): error: no operator "+" matches these operands\n            operand types are: __half + __half\n'
)


@pytest.mark.parametrize("length", [61, 4096, 1 << 20])
def test_a_text_in_pieces_is_explained_as_one(length: int):
    text = LOG + SEVERAL_LINES + "x\n" * 3000
    pieces = (text[at : at + length] for at in range(0, len(text), length))
    assert explain(pieces) == explain(text)
    assert [found.id for found in explain(text)] == ["torch-symbol", "no-library", "half-operators"]


def test_what_lies_across_two_blocks_is_found():
    """Wherever blocks end, in a line or between the lines of one message."""
    for before in range(_BLOCK_CHARACTERS - 150, _BLOCK_CHARACTERS + 10, 7):
        assert ids("." * (before - 1) + "\n" + SEVERAL_LINES + "x" * 5000) == ["half-operators"]
        assert ids("." * before + f" {CHANGED}" + "x" * 5000) == ["torch-symbol"]


def test_colours_and_control_characters():
    coloured = "\x1b[01mk.cpp:1:10:\x1b[m\x1b[K \x1b[01;31mfatal error: \x1b[mPython.h: No such file or directory"
    assert ids(coloured) == ["python-header"]
    (found,) = explain("\x1b]0;title\x07ld: cannot find -lpng\x00")
    assert found.id == "no-library"
    assert found.line.isprintable()


@pytest.mark.parametrize(
    "line",
    [
        "g++ -c k.cpp " + "a" * 300 + " error 'x' (required by y) undefined reference ",
        "x\n/usr/bin/c++ -DTORCH_TARGET_VERSION=1 -I/torch/include -c /src/k.cpp -o k.o\nk.cpp:2:3: error: no match",
    ],
)
@pytest.mark.parametrize("end", some([" ", "\n"], 1, "megabytes of text"), ids=["one line", "lines"])
def test_time_is_linear_and_memory_bounded(line: str, end: str):
    """4 MB, as long lines or as one line; patterns that look back and forth took minutes."""
    text = (line + end) * 200
    start = time.process_time()
    tracemalloc.start()
    explain(text for _ in range(4_000_000 // len(text)))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert time.process_time() - start < 10
    assert peak_bytes < 20e6


@pytest.mark.parametrize(
    ("header", "cuda", "package"),
    [
        ("cusparse.h", "13.0", "'cuda-toolkit[cusparse]==13.0.*'"),
        ("cusparse.h", "12.8.93", "'cuda-toolkit[cusparse]==12.8.*'"),
        ("cusparseLt.h", "13.0", "nvidia-cusparselt-cu13"),
        ("cublas_v2.h", None, "'cuda-toolkit[cublas]'"),
        ("cudnn.h", "12.8", "nvidia-cudnn-cu12"),
        ("nccl.h", "13.0", "nvidia-nccl-cu13"),
        ("thrust/sort.h", "13.0", "'cuda-toolkit[cccl]==13.0.*'"),
        ("crt/host_config.h", "13.0", "'cuda-toolkit[crt]==13.0.*'"),
        ("crt/host_config.h", "12.4", "'cuda-toolkit[nvcc]==12.4.*'"),
        ("vector", "13.0", None),
    ],
)
def test_the_package_of_a_header(header, cuda, package):
    assert package_of_header(header, cuda) == package


@pytest.mark.parametrize(
    ("library", "cuda", "package"),
    [
        ("libcudart.so.12", "13.0", "'cuda-toolkit[cudart]==12.*'"),
        ("libcublasLt.so.12", None, "'cuda-toolkit[cublas]==12.*'"),
        ("libcufft.so.11", "12.8", "'cuda-toolkit[cufft]==12.8.*'"),
        ("libcudnn.so.9", "12.8", "nvidia-cudnn-cu12"),
        ("libcudnn_ops.so.9", "13.0", "nvidia-cudnn-cu13"),
        ("libpng.so", "13.0", None),
    ],
)
def test_the_package_of_a_library(library, cuda, package):
    assert package_of_library(library, cuda) == package
