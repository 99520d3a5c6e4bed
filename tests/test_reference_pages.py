"""The generated reference: headers are read right, and nothing public is missing on its page."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "reference"


@pytest.fixture
def headers(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    yield importlib.import_module("generators.headers")
    for name in [name for name in sys.modules if name.partition(".")[0] == "generators"]:
        del sys.modules[name]


_HEADER = """// Sums.
//
// In two kinds.
#pragma once

#include "view.h"

// Of another place.
extern "C" int outside();

namespace opsmith {

namespace detail {
// Not shown.
inline int hidden(int a) { return a; }
}  // namespace detail

// The sum of two numbers:
//
//     sum(1, 2)
template <class T>
T sum(T a, T b) {
  if (a) {
    return b;
  }
#if defined(__CUDACC__)
  return a;
#else
  return a + b;
#endif
}

inline int sum(int a) { return a; }

// Keeps a sum.
class Kept {
 public:
  explicit Kept(int count) : count_(count) {}
  Kept(const Kept&) = delete;
  // How often it was asked.
  int asked() const {
    return count_;
  }

  int total = 0;

 private:
  int count_;
};

namespace math {
constexpr int64_t limit = 1 << 4;  // more is too much
}  // namespace math

template <class T>
Kept(T) -> Kept<T>;

}  // namespace opsmith
"""


def test_a_header_is_its_comment_and_what_is_public_in_it(headers):
    read = headers.read_header(_HEADER)
    assert read.comment == "Sums.\n\nIn two kinds."
    assert [item.name for item in read.declarations] == ["sum", "sum", "Kept", "math::limit"]
    first, second, kept, limit = read.declarations
    assert first.comment == "The sum of two numbers:\n\n    sum(1, 2)"
    assert first.code == "template <class T>\nT sum(T a, T b);"
    assert second.code == "inline int sum(int a);"
    assert kept.code.splitlines() == [
        "class Kept {",
        "  explicit Kept(int count);",
        "  // How often it was asked.",
        "  int asked() const;",
        "  int total = 0;",
        "};",
    ]
    assert limit.code == "constexpr int64_t limit = 1 << 4;  // more is too much"


def test_an_overload_without_a_comment_joins_the_one_before(headers):
    groups = list(headers.grouped(headers.read_header(_HEADER).declarations))
    assert [len(group) for group in groups] == [1, 1, 1]
    assert groups[0][0].code == "template <class T>\nT sum(T a, T b);\ninline int sum(int a);"


def test_names_of_code_are_marked_and_markup_is_escaped(headers):
    markdown = importlib.import_module("generators.markdown")
    assert markdown.escape("a * b_c of std::x<T>, `d_e` [0]") == r"a \* `b_c` of `std::x<T>`, `d_e` \[0]"
    assert list(markdown.prose("one\ntwo\n\n    x = 1\n\n    y = 2", "python")) == [
        "one two",
        "",
        "```python",
        "x = 1\n\ny = 2",
        "```",
        "",
    ]
    assert list(markdown.prose("name   what it\n       is\nother  else", "text")) == [
        "* **`name`**: what it is",
        "* **`other`**: else",
        "",
    ]


def test_the_page_of_python_has_every_public_name():
    import opsmith

    page = (PAGES / "python.md").read_text(encoding="utf-8")
    names = {f"opsmith.{name}" for name in opsmith.__all__ if name != "errors"}
    names |= {f"opsmith.errors.{name}" for name in opsmith.errors.__all__}
    assert {name for name in names if f"`{name}`" not in page} == set()
    assert "**`preserve_format`**" in page  # an option, which only the running code has


def test_the_page_of_kernels_has_every_header_that_kernels_include():
    page = (PAGES / "kernel.md").read_text(encoding="utf-8")
    include = ROOT / "src" / "opsmith" / "include" / "opsmith"
    # For the generated binding and nvcc alone.
    internal = {"arguments", "atomic", "binding", "checks", "held", "layout", "native_binding", "running", "shims"}
    internal |= {"sizes", "timed", "kernel", "unit", "arithmetic", "embedded", "embedded_blocks", "hosted"}
    internal |= {"cuda_device", "cuda_driver", "hip_device", "hip_driver"}
    native = {"native", "stream", "tensor", "torch_error"}
    names = {file.stem for file in include.glob("*.h")} - internal - native
    assert {name for name in names if f"\n## {name}.h\n" not in page} == set()
    other = (PAGES / "native.md").read_text(encoding="utf-8")
    assert {name for name in native if f"\n## {name}.h\n" not in other} == set()
    for name in ("View", "parallel_for", "with_best_isa", "blocks_for", "check_launch", "Workspace", "math::exp"):
        assert f"\n### `{name}`\n" in page


def test_the_page_of_commands_has_every_command():
    from opsmith.cli import _COMMANDS, _HIDDEN

    page = (PAGES / "command-line.md").read_text(encoding="utf-8")
    assert {name for name in _COMMANDS if f"\n## opsmith {name}\n" not in page} == _HIDDEN
    assert re.search(r"^\| `--seconds FLOAT` \| .+ \|$", page, flags=re.MULTILINE)
