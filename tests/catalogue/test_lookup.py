"""A text is explained by the entries that fit it, with the facts that are known and no others."""

from __future__ import annotations

import re

import pytest

from opsmith.catalogue import Facts, explain
from opsmith.catalogue.packages import package_of_header, package_of_library

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


def test_explanations_come_in_the_order_of_the_text_and_once():
    text = "ld: cannot find -lpng\nld: cannot find -ljpeg\ng++: fatal error: Killed signal terminated program cc1plus\n"
    assert ids(text) == ["no-library", "compiler-killed"]


def test_the_line_that_an_explanation_is_about():
    assert explain(f"a\n{CHANGED}\nb")[0].line == CHANGED


def test_a_long_text_takes_no_time():
    """Patterns that look back and forth would take minutes here."""
    import time

    text = ("g++ -c k.cpp " + "a" * 300 + " error 'x' (required by y) undefined reference " + "\n") * 5000
    start = time.perf_counter()
    explain(text)
    assert time.perf_counter() - start < 20


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
