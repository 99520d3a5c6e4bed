"""Sizes that are computed, anonymous or variadic: the kernel, the body and the fake kernel agree on them."""

from __future__ import annotations

import pytest
import torch
from kit import shapes
from kit.agreement import agree, fake_result, forms

pytestmark = pytest.mark.compile

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", FLOATS)
def test_sizes_are_solved_from_expressions(dtype: torch.dtype) -> None:
    out = agree(shapes.split_gates, torch.randn(2, 12).to(dtype), torch.randn(7).to(dtype))
    assert out.shape == (2, 4, 3)
    assert agree(shapes.split_gates, torch.randn(2, 0).to(dtype), torch.randn(7).to(dtype)).shape == (2, 0, 7)


@pytest.mark.parametrize("up", [1, 2, 3])
@pytest.mark.parametrize("down", [1, 2, 3])
@pytest.mark.parametrize(("pad0", "pad1"), [(0, 0), (2, 1), (-1, 2)])
def test_upfirdn_s_size_is_an_expression(up: int, down: int, pad0: int, pad1: int) -> None:
    x, taps = torch.randn(2, 9, dtype=torch.float64), torch.randn(4)
    agree(shapes.upfir, x, taps, up, down, pad0, pad1, tolerance=1e-12)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (2, 1, 3, 2), (0, 3), (2, 0)])
def test_a_variadic_group_is_any_number_of_dimensions(batch: tuple[int, ...]) -> None:
    assert agree(shapes.row_sums, torch.randn(*batch, 4)).shape == batch
    assert agree(shapes.outer, torch.randn(*batch, 4), torch.randn(*batch, 2)).shape == (*batch, 4, 2)
    assert agree(shapes.middle, torch.randn(5, *batch, 4)).shape == (4, *batch, 5)
    assert agree(shapes.column_count, torch.randn(*batch, 4)).shape == ()


def test_a_group_whose_strides_cannot_be_merged_is_copied() -> None:
    x = torch.randn(4, 3, 2, 5).transpose(0, 2)
    agree(shapes.row_sums, x)
    agree(shapes.middle, x)
    agree(shapes.outer, x, torch.randn(5).expand(2, 3, 4, 5))


def test_a_group_with_a_gap_is_copied() -> None:
    x = torch.randn(4, 3, 4, 5)[:, :, :2]
    agree(shapes.row_sums, x)
    agree(shapes.middle, x)
    agree(shapes.outer, x, torch.randn(8, 3, 2, 2)[::2])


def test_0_dimensional_inputs_and_outputs() -> None:
    agree(shapes.affine, torch.randn(3), torch.tensor(2.5))
    assert agree(shapes.column_count, torch.randn(3, 4)).item() == 12


@pytest.mark.parametrize("dtype", FLOATS)
def test_several_named_outputs_with_types_of_their_own(dtype: torch.dtype) -> None:
    value, index = agree(shapes.row_max, torch.randn(3, 5).to(dtype))
    assert (value.dtype, index.dtype) == (dtype, torch.int64)


def test_inputs_come_with_their_own_strides_and_offsets() -> None:
    base = torch.randn(40)
    agree(shapes.row_max, base[3:23].view(4, 5))
    agree(shapes.row_max, base.view(5, 8).t())
    agree(shapes.row_max, base.view(5, 8)[1::2, 1::3])
    agree(shapes.row_max, base[:5, None].expand(5, 3))
    agree(shapes.affine, base[::2], base[7])
    agree(shapes.affine, base[1].expand(6), base[7])


def test_contiguous_inputs_on_request() -> None:
    x = torch.randn(6, 4).t()
    assert x.stride() == (1, 4)
    assert agree(shapes.stride_of_rows, x).item() == 6


@pytest.mark.parametrize("shape", [(2, 4, 6, 8), (1, 1, 2, 2), (2, 3, 1, 1), (2, 3, 5, 4), (0, 3, 4, 4)])
@pytest.mark.parametrize("channels", [0, 1])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "transposed", "sliced"])
def test_an_output_keeps_its_input_s_memory_format(shape: tuple[int, ...], channels: int, layout: str) -> None:
    x = torch.randn(shape)
    if layout == "channels_last":
        x = x.contiguous(memory_format=torch.channels_last)
    elif layout == "transposed":
        x = x.transpose(2, 3).contiguous().transpose(2, 3)
    elif layout == "sliced":
        x = torch.randn(*shape[:3], 2 * shape[3])[..., ::2]
    agree(shapes.halve, x, channels)


def test_channels_last_in_channels_last_out() -> None:
    x = torch.randn(2, 4, 6, 8).contiguous(memory_format=torch.channels_last)
    out = shapes.halve(x, 3)
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert not out.is_contiguous()
    assert forms(out) == forms(fake_result(shapes.halve, x, 3))
