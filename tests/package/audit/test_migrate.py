"""A migration report names the stable replacement of each symbol and the line that uses it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import torch
from make_library import library

from compilers import find_compiler
from opsmith.package.audit import audit
from opsmith.package.audit.migrate.replacements import find_replacement, replacements
from opsmith.package.audit.symbols import is_unstable_torch
from opsmith.toolchain.shims import shim_table

# What a file that includes torch's headers needs, without them.
SOURCE = """
namespace c10::cuda { void* getCurrentCUDAStream(signed char); }
namespace at { class Tensor { public: __attribute__((noinline)) long size(long) const; void unheard_of(); }; }

long rows(const at::Tensor& x) {
  return x.size(0);  // line 6
}
void* stream() { return c10::cuda::getCurrentCUDAStream(-1); }
"""


@pytest.mark.parametrize(
    ("name", "stable"),
    [
        ("at::Tensor::size(long) const", "torch::stable::Tensor::size"),
        ("float* at::TensorBase::data_ptr<float>() const", "torch::stable::Tensor::mutable_data_ptr<T>"),
        ("at::TensorBase::__dispatch_contiguous(c10::MemoryFormat) const", "torch::stable::contiguous"),
        ("c10::cuda::getCurrentCUDAStream(signed char)", "aoti_torch_get_current_cuda_stream; since 2.13 "),
        ("c10::detail::torchCheckFail(char const*, char const*, unsigned int, char const*)", "STD_TORCH_CHECK"),
        ("at::_ops::zero_::call(at::Tensor&)", "torch::stable::zero_"),
        ("at::_ops::masked_scatter::call(at::Tensor const&)", 'torch_call_dispatcher("aten::masked_scatter", ""'),
        ("at::_ops::mul_Tensor::call(at::Tensor const&)", 'torch_call_dispatcher("aten::mul", "Tensor"'),
        ("torch::Library::_impl(char const*, torch::CppFunction&&) &", "STABLE_TORCH_LIBRARY_IMPL"),
        ("vtable for c10::Error", "STD_TORCH_CHECK"),
        ("c10::SymInt::guard_int(char const*, long) const", "int64_t in the signature"),
    ],
)
def test_a_name_has_its_replacement(name, stable):
    row = find_replacement(name)
    assert row is not None
    assert row.stable.startswith(stable)


def test_the_table_is_well_formed():
    rows = replacements()
    assert len(rows) >= 100
    for row in rows:
        re.compile(row.pattern)
        re.compile(row.source)
        assert bool(row.stable) == bool(row.since), row
        assert not row.since or re.fullmatch(r"2\.\d+", row.since)


def test_what_the_table_recommends_exists():
    text = " ".join(row.stable for row in replacements())
    functions = set(re.findall(r"\b(?:aoti_)?torch_\w+", text))
    assert len(functions) > 20
    assert functions - shim_table().since.keys() == set()
    include = Path(torch.__file__).parent / "include" / "torch"
    headers = "\n".join(
        file.read_text(encoding="utf-8")
        for part in ("csrc/stable", "headeronly")
        for file in (include / part).rglob("*.h")
    )
    later = {"add", "nativeHandle", "Generator"}  # the oldest torch does not have them
    paths = re.findall(r"\btorch::(?:stable|headeronly)((?:::\w+)+)", text)
    names = {name for path in paths for name in path.split("::") if name} | set(
        re.findall(r"\b(?:STD|STABLE)_\w+", text)
    )
    assert len(names) > 30
    assert {name for name in names - later if not re.search(rf"\b{name}\b", headers)} == set()


@pytest.mark.parametrize(
    "symbol", ["_ZNK2at6Tensor4sizeEl", "_ZTIN3c105ErrorE", "_ZTVN5torch8autograd12AutogradMetaE", "THPVariable_Wrap"]
)
def test_torchs_own_symbols_are_told(symbol):
    assert is_unstable_torch(symbol)


@pytest.mark.parametrize(
    "symbol", ["_ZNSt6vectorIN2at6TensorESaIS1_EED2Ev", "_Z4rowsRKN2at6TensorE", "torch_library_impl", "_ZN4atom3runEv"]
)
def test_others_symbols_are_not_torchs(symbol):
    assert not is_unstable_torch(symbol)


def built(folder, *flags, more=""):
    (folder / "rows.cpp").write_text(SOURCE + more, encoding="utf-8")
    command = [find_compiler("g++"), "-shared", "-fPIC", "-O1", "-std=c++17", *flags, "-o", "rows.so", "rows.cpp"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "rows.so"


@pytest.mark.compile
def test_debug_information_tells_the_line(tmp_path):
    result = audit(built(tmp_path, "-g"), why=True)
    uses = {use.name: use for use in result.uses}
    size = uses["at::Tensor::size(long) const"]
    assert size.replacement == "torch::stable::Tensor::size"
    assert [place.rpartition("/")[2] for place in size.lines] == ["rows.cpp:6"]
    assert uses["c10::cuda::getCurrentCUDAStream(signed char)"].lines[0].endswith("rows.cpp:8")
    assert "torch::stable::Tensor::size" in str(result)


@pytest.mark.compile
def test_what_is_expanded_from_torchs_headers_is_of_the_line_that_uses_it(tmp_path):
    header = tmp_path / "torch" / "include" / "ATen" / "columns.h"
    header.parent.mkdir(parents=True)
    header.write_text(
        "inline __attribute__((always_inline)) long columns(const at::Tensor& x) {\n  return x.size(1);\n}\n",
        encoding="utf-8",
    )
    more = '#include "torch/include/ATen/columns.h"\nlong area(const at::Tensor& x) { return rows(x) * columns(x); }\n'
    result = audit(built(tmp_path, "-g", more=more), why=True)
    (size,) = (use for use in result.uses if use.name == "at::Tensor::size(long) const")
    assert [place.rpartition("/")[2] for place in size.lines] == ["rows.cpp:6", "rows.cpp:10"]


@pytest.mark.compile
def test_sources_tell_the_line_where_there_is_no_debug_information(tmp_path):
    result = audit(built(tmp_path), sources=tmp_path)
    places = {use.name: use.lines for use in result.uses}
    assert places["at::Tensor::size(long) const"] == ("rows.cpp:6",)
    assert "rows.cpp:8" in places["c10::cuda::getCurrentCUDAStream(signed char)"]


def test_a_stable_library_has_nothing_to_migrate(tmp_path):
    file = tmp_path / "_ops.so"
    file.write_bytes(library())
    assert audit(file, why=True).uses == ()
