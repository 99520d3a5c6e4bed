"""Of torch's operators a source gets those that it mentions, and those that torch's own text needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsmith.build.fast.operators import write_operator_headers

FUNCTIONS = """#pragma once
// use <ATen/ops/sum.h> instead
#include <ATen/Context.h>
#include <ATen/ops/add.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/std.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
namespace at { inline Tensor std(const Tensor& self, int dim) { return at::std(self, IntArrayRef{dim}); } }
"""
NATIVE = "#pragma once\n#include <ATen/ops/add_native.h>\n#include <ATen/ops/sum_native.h>\n"


@pytest.fixture
def include(tmp_path: Path) -> Path:
    folder = tmp_path / "include"
    (folder / "ATen").mkdir(parents=True)
    (folder / "ATen" / "Functions.h").write_text(FUNCTIONS)
    (folder / "ATen" / "NativeFunctions.h").write_text(NATIVE)
    return folder


def test_an_operator_that_nobody_mentions_is_left_out_and_all_else_stays(include, tmp_path):
    flags = write_operator_headers(
        "at::zeros({1}); y.add_(x); at::relu_(x); at::add_out(x, y);", include, tmp_path / "h"
    )
    assert flags == ("-Ih", "-DAT_PER_OPERATOR_HEADERS")
    made = (tmp_path / "h" / "ATen" / "Functions.h").read_text()
    # std is mentioned by the header itself; what a comment mentions does not count.
    assert made == FUNCTIONS.replace("#include <ATen/ops/sum.h>\n", "")
    assert (tmp_path / "h" / "ATen" / "NativeFunctions.h").read_text() == NATIVE.replace(
        "#include <ATen/ops/sum_native.h>\n", ""
    )


def test_a_torch_without_these_headers_is_left_alone(include, tmp_path):
    (include / "ATen" / "NativeFunctions.h").unlink()
    assert write_operator_headers("at::zeros", include, tmp_path / "h") == ()
    assert not (tmp_path / "h").exists()
