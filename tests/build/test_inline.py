"""The files that load_inline writes."""

from __future__ import annotations

import pytest

from opsmith.build.inline import inline_sources, string_literal
from opsmith.errors import ArgumentError


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("plain", '"plain"'),
        ('a "b" \\', '"a \\042b\\042 \\134"'),
        ("line\nline", '"line\\012line"'),
        ("\N{LATIN SMALL LETTER U WITH DIAERESIS}8", '"\\303\\2748"'),
        ("??/", '"\\077\\077/"'),
    ],
)
def test_any_text_becomes_a_literal(text: str, literal: str) -> None:
    assert string_literal(text) == literal


def test_texts_are_joined_and_each_is_marked() -> None:
    (source,) = inline_sources(["int f();", "int g();"], [], {"f": "doc"})
    assert source.name == "main.cpp"
    assert source.text is not None
    assert source.text.splitlines() == [
        "#include <torch/extension.h>",
        "// opsmith-text:cpp_sources[0]",
        "int f();",
        "// opsmith-text:cpp_sources[1]",
        "int g();",
        "// opsmith-text:functions",
        "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {",
        '  m.def("f", torch::wrap_pybind_function(f), "doc");',
        "}",
    ]


def test_cuda_texts_become_a_file_of_their_own_and_get_no_bindings() -> None:
    cxx, cuda = inline_sources(["void f();"], ["__global__ void k() {}"], {"f": ""}, translate_errors=False)
    assert (cxx.language, cuda.language, cuda.name) == ("cxx", "gpu", "cuda.cu")
    assert cxx.text is not None
    assert cuda.text is not None
    assert "&f" in cxx.text
    assert "PYBIND11_MODULE" not in cuda.text


def test_a_module_may_declare_that_it_needs_no_gil() -> None:
    (source,) = inline_sources(["int f();"], [], {"f": ""}, gil_not_used=True)
    assert source.text is not None
    assert "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m, pybind11::mod_gil_not_used()) {" in source.text


def test_a_function_must_be_a_name() -> None:
    with pytest.raises(ArgumentError, match="not the name of a C"):
        inline_sources([""], [], {"f); abort(": ""})
