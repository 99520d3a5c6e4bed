"""A tensor that does not lie as a kernel relies on is copied, there and back: at 16 bytes, with a last stride of 1."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest
import torch

pytestmark = pytest.mark.compile

_MODULE = '''
from jaxtyping import Float, Int64
from torch import Tensor

import opsmith


@opsmith.op(cpu=opsmith.native("laid_out.cpp"), mutates=("x", "at"))
def laid_out(x: Float[Tensor, "A B"], keeps_strides: bool, before: int, at: Int64[Tensor, "3"]) -> None:
    """Writes to x what a kernel would get of it, times two, and to `at` where that lies: its address modulo 16, strides."""
    x.mul_(2)
'''
# As a generated binding does before and after it calls a kernel.
_KERNEL = """
#include <opsmith/layout.h>
#include <opsmith/native.h>

using namespace opsmith;

void laid_out(const Tensor& x, bool keeps_strides, int64_t before, const Tensor& at) {
  AtenTensorHandle handle = nullptr;
  if (aoti_torch_new_tensor_handle(x.get(), &handle) != 0) fail("no handle");
  binding::Held held(handle);
  held.read();
  if (before == 1) held.make_contiguous();
  if (before == 2) binding::make_rows_contiguous(held);
  if (before == 3) binding::make_rows_contiguous(held, 0);
  binding::make_aligned(held, keeps_strides);
  float* data = held.data<float>();
  int64_t* found = static_cast<int64_t*>(at.data_ptr());
  found[0] = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data) % 16);
  found[1] = held.strides[0], found[2] = held.strides[1];
  for (int64_t i = 0; i < held.sizes[0]; ++i) {
    for (int64_t j = 0; j < held.sizes[1]; ++j) data[i * held.strides[0] + j * held.strides[1]] *= 2;
  }
  held.copy_back();
}
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder = tmp_path_factory.mktemp("alignment")
    (folder / "laid_out_in_tests.py").write_text(_MODULE)
    (folder / "laid_out.cpp").write_text(_KERNEL)
    sys.path.insert(0, str(folder))
    yield import_module("laid_out_in_tests")
    sys.path.remove(str(folder))


@pytest.mark.parametrize(
    ("offset", "size", "stride", "keeps", "before", "strides"),
    [
        (0, (4, 6), (10, 1), False, 0, (10, 1)),  # as it is
        (1, (4, 6), (10, 1), False, 0, (6, 1)),
        (1, (4, 6), (6, 1), False, 0, (6, 1)),
        (3, (4, 6), (1, 4), True, 0, (1, 4)),  # a dense one, whose order of dimensions stays
        (1, (4, 6), (1, 10), False, 1, (6, 1)),  # copied because of its strides
        (0, (4, 6), (10, 1), False, 2, (10, 1)),
        (0, (4, 1), (2, 5), False, 2, (2, 5)),  # of one column, whose stride does not count
        (0, (4, 1), (2, 1), False, 3, (1, 1)),  # of one dimension to the kernel, whose stride is 2
        (0, (4, 1), (1, 9), False, 3, (1, 9)),
        (2, (4, 0), (1, 1), False, 0, None),
    ],
)
def test_where_a_tensor_lies(
    module: ModuleType,
    offset: int,
    size: tuple[int, int],
    stride: tuple[int, int],
    keeps: bool,
    before: int,
    strides: tuple[int, int] | None,
) -> None:
    base = torch.arange(100.0)
    assert base.data_ptr() % 16 == 0
    x, at = base.as_strided(size, stride, offset), torch.full((3,), -1)
    expected = base.clone()
    expected.as_strided(size, stride, offset).mul_(2)
    module.laid_out(x, keeps, before, at)
    torch.testing.assert_close(base, expected, rtol=0, atol=0)
    if strides is not None:
        assert at.tolist() == [0, *strides]
