"""A tensor that does not begin at a multiple of 16 bytes is copied for a kernel that relies on it, there and back."""

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
def laid_out(x: Float[Tensor, "A B"], keeps_strides: bool, contiguous: bool, at: Int64[Tensor, "3"]) -> None:
    """Writes to x what a kernel would get of it, times two, and to `at` where that lies: its address modulo 16, strides."""
    x.mul_(2)
'''
# As a generated binding does before and after it calls a kernel.
_KERNEL = """
#include <opsmith/layout.h>
#include <opsmith/native.h>

using namespace opsmith;

void laid_out(const Tensor& x, bool keeps_strides, bool contiguous, const Tensor& at) {
  AtenTensorHandle handle = nullptr;
  if (aoti_torch_new_tensor_handle(x.get(), &handle) != 0) fail("no handle");
  binding::Held held(handle);
  held.read();
  if (contiguous) held.make_contiguous();
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
    ("offset", "size", "stride", "keeps", "contiguous", "strides"),
    [
        (0, (4, 6), (10, 1), False, False, (10, 1)),  # as it is
        (1, (4, 6), (10, 1), False, False, (6, 1)),
        (1, (4, 6), (6, 1), False, False, (6, 1)),
        (3, (4, 6), (1, 4), True, False, (1, 4)),  # a dense one, whose order of dimensions stays
        (1, (4, 6), (1, 10), False, True, (6, 1)),  # copied because of its strides
        (2, (4, 0), (1, 1), False, False, None),
    ],
)
def test_where_a_tensor_lies(
    module: ModuleType,
    offset: int,
    size: tuple[int, int],
    stride: tuple[int, int],
    keeps: bool,
    contiguous: bool,
    strides: tuple[int, int] | None,
) -> None:
    base = torch.arange(100.0)
    assert base.data_ptr() % 16 == 0
    x, at = base.as_strided(size, stride, offset), torch.full((3,), -1)
    expected = base.clone()
    expected.as_strided(size, stride, offset).mul_(2)
    module.laid_out(x, keeps, contiguous, at)
    torch.testing.assert_close(base, expected, rtol=0, atol=0)
    if strides is not None:
        assert at.tolist() == [0, *strides]
