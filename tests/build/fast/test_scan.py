"""What a source mentions is found in its own text and in its project's headers, and nowhere in comments."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsmith.build.fast.scan import scan_source
from opsmith.spec.extension import Source


def scan(text: str, *folders: Path):
    return scan_source(Source("a.cpp", "cxx", "full", text=text), folders)


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("#include <torch/extension.h>\n#define X 1\n", True),
        ("// a comment\n/* and\n another */\n#include <vector>\n\n#include <torch/all.h>\nint x;\n", True),
        ("#pragma once\n#ifdef WITH_PYTHON\n#include <Python.h>\n#endif\n#include <torch/extension.h>\n", True),
        ("#define TORCH_ASSERT_NO_OPERATORS\n#include <torch/extension.h>\n", False),
        ("#undef NDEBUG\n#include <torch/extension.h>\n", False),
        ("using std_vector = int;\n#include <torch/extension.h>\n", False),
        ('#pragma GCC diagnostic ignored "-Wall"\n#include <torch/extension.h>\n', False),
        ("#include <ATen/ATen.h>\n", False),
    ],
)
def test_only_a_source_that_starts_with_torch_may_have_its_header_read_first(text, starts):
    assert scan(text).starts_with_torch is starts


def test_headers_of_the_project_are_followed_and_their_guards_are_no_macros(tmp_path):
    (tmp_path / "own.h").write_text('#ifndef OWN_H\n#define OWN_H\n#include "deeper.h"\nvoid parallel();\n#endif\n')
    (tmp_path / "deeper.h").write_text("#pragma once\n#include <torch/extension.h>\n#include <own.h>\n")
    found = scan("#include <own.h>\n", tmp_path)
    assert found.umbrella == "torch/extension.h"
    assert found.starts_with_torch
    assert "void parallel();" in found.text
    (tmp_path / "deeper.h").write_text("#define EARLY\n#include <torch/extension.h>\n")
    assert not scan("#include <own.h>\n", tmp_path).starts_with_torch
    # A quoted header lies beside the file that names it, which a text has none of.
    assert scan('#include "own.h"\n').umbrella is None


def test_comments_say_nothing_and_conditions_are_told_apart(tmp_path):
    found = scan("// torch::nn\n#if AT_MKL_ENABLED() /* why */\n#include <torch/extension.h>\n#endif\n")
    assert "torch::nn" not in found.text
    assert found.conditions == "AT_MKL_ENABLED()"


def test_a_file_that_cannot_be_read_counts_as_empty(tmp_path):
    missing = Source("a.cpp", "cxx", "full", path=tmp_path / "missing.cpp")
    assert scan_source(missing, ()).text == ""
