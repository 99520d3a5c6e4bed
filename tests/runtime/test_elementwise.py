"""Elementwise operators: one flat loop for every rank and layout, and outputs strided as the fake kernel says."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from kit import elementwise
from kit.agreement import agree
from torch import Tensor

pytestmark = pytest.mark.compile

LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "contiguous": lambda: torch.randn(2, 3, 4, 5),
    "channels_last": lambda: torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
    "permuted": lambda: torch.randn(5, 3, 2, 4).permute(2, 1, 3, 0),
    "sliced": lambda: torch.randn(2, 3, 4, 10)[..., ::2],
    "expanded": lambda: torch.randn(2, 1, 4, 1).expand(2, 3, 4, 5),
    "offset": lambda: torch.randn(121)[1:].view(2, 3, 4, 5),
    "flipped": lambda: torch.randn(2, 3, 4, 5).transpose(0, 3).contiguous().transpose(0, 3),
}
DENSE = {"contiguous", "channels_last", "permuted", "offset", "flipped"}


@pytest.mark.parametrize("shape", [(), (1,), (7,), (0,), (2, 0, 3), (1, 5), (5, 1), (2, 3, 4), (1, 2, 1, 3, 1, 2)])
def test_any_rank(shape: tuple[int, ...]) -> None:
    x, y = torch.randn(shape), torch.randn(shape)
    agree(elementwise.axpy, None, x, y)
    agree(elementwise.axpy, torch.randn(shape), x, y)
    agree(elementwise.select, x > 0, x, y)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_any_element_type(dtype: torch.dtype) -> None:
    agree(elementwise.axpy, *(torch.randn(9).to(dtype) for _ in range(3)))


@pytest.mark.parametrize("x_layout", LAYOUTS)
@pytest.mark.parametrize("y_layout", LAYOUTS)
def test_any_pair_of_layouts(x_layout: str, y_layout: str) -> None:
    x, y = LAYOUTS[x_layout](), LAYOUTS[y_layout]()
    agree(elementwise.axpy, None, x, y)
    agree(elementwise.select, y > 0, x, y)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("bias_layout", LAYOUTS)
def test_an_optional_input_counts_where_it_is_given(layout: str, bias_layout: str) -> None:
    agree(elementwise.axpy, LAYOUTS[bias_layout](), LAYOUTS[layout](), LAYOUTS[layout]())


@pytest.mark.parametrize("layout", sorted(DENSE))
def test_dense_inputs_alike_are_not_copied_and_give_the_output_their_strides(layout: str) -> None:
    x = LAYOUTS[layout]()
    out = elementwise.axpy(None, x, LAYOUTS[layout]())
    assert out.stride() == x.stride()


def test_mixed_layouts_give_a_row_major_output() -> None:
    assert elementwise.axpy(None, LAYOUTS["permuted"](), LAYOUTS["channels_last"]()).is_contiguous()


def test_dimensions_of_size_1_may_have_any_stride() -> None:
    x = torch.randn(6).as_strided((1, 2, 3), (17, 3, 1))
    y = torch.randn(6).as_strided((1, 2, 3), (6, 1, 2))
    agree(elementwise.axpy, None, x, x)
    agree(elementwise.axpy, None, y, y)
    agree(elementwise.axpy, None, x, y)
