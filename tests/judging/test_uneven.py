"""Inputs of a task's own numbers have its range and signs, and few of them decide about a sum, or a part."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from opsmith.judging.uneven import LOST_BITS, layered, rounded_down, thinned, with_large_ends
from opsmith.subject.draws import Draws

# Each with numbers near zero, without which none nearly vanish.
_RANDOM = torch.Generator().manual_seed(11)
TENSORS = {
    "between 0 and 1": torch.rand(40, 512, generator=_RANDOM),
    "of both signs": torch.randn(3, 64, 64, generator=_RANDOM),
    "below zero": -torch.rand(1 << 15, generator=_RANDOM),
    "in half precision": torch.rand(64, 128, generator=_RANDOM).half(),
    "with infinities": torch.rand(64, 128, generator=_RANDOM).masked_fill(torch.arange(128) == 5, torch.inf),
}
for one in TENSORS.values():
    one.view(-1)[7] = 0


@pytest.mark.parametrize("make", [thinned, layered])
@pytest.mark.parametrize("name", list(TENSORS))
def test_range_and_signs_stay(name: str, make: Callable[..., Callable[[Tensor, Tensor], Tensor]]) -> None:
    value = TENSORS[name]
    found = make(Draws(3))(value, value)
    assert (found.shape, found.dtype) == (value.shape, value.dtype)
    assert not torch.equal(found, value)
    assert value.min() <= found.min() and found.max() <= value.max()
    assert torch.equal(found.signbit() & (found != 0), value.signbit() & (found != 0))
    assert bool((found.abs() <= value.abs()).all())


def test_few_numbers_decide_about_a_sum() -> None:
    value = torch.rand(64, 4096)
    found = thinned(Draws(1))(value, value)
    large = found > 2.0**-8
    assert 2 < large.sum(1).float().mean() < 6
    assert torch.equal(found[large], value[large])
    assert bool(found.where(large, 0).sum() > 0.7 * found.sum())


@pytest.mark.parametrize("size", [1 << 10, 1 << 20])
def test_few_numbers_decide_about_a_sum_of_all(size: int) -> None:
    value = torch.rand(4, size // 4, generator=torch.Generator().manual_seed(12))
    value[1, 7] = 0
    found = thinned(Draws(1), of_all=True)(value, value)
    large = found > 2.0**-8
    assert 8 < int(large.sum()) < 40
    assert bool(found.where(large, 0).sum() > 0.7 * found.sum())
    for dim in (0, 1):
        assert bool(large.select(dim, 0).any()) and bool(large.select(dim, -1).any())


def test_what_is_not_near_zero_is_not_thinned() -> None:
    value = 1 + torch.rand(64, 64)
    assert thinned(Draws(1))(value, value) is value


def test_short_dimensions_have_no_parts() -> None:
    value = torch.rand(32, 32)
    assert layered(Draws(1))(value, value) is value


@pytest.mark.parametrize("step", [2, 3, 4, 5, 6, 7, 8, 11, 13, 16, 64])
def test_no_sample_of_a_stride_shows_the_mean(step: int) -> None:
    value = torch.rand(1 << 20)
    parts = [layered(Draws(seed))(value, value) for seed in (1, 2)]
    assert max(abs(float(part[::step].mean() / part.mean() - 1)) for part in parts) > 0.03


def test_in_a_long_tensor_the_small_parts_count_too() -> None:
    value = torch.rand(1 << 21)
    assert all(float(layered(Draws(seed))(value, value).mean()) > 0.01 for seed in (1, 2, 3))


@pytest.mark.parametrize("dim", [0, -1])
def test_ends_decide_about_a_sum_of_squares(dim: int) -> None:
    value = torch.randn(64, 4096, generator=torch.Generator().manual_seed(13))
    found = with_large_ends(dim)(value, value)
    squares = found.square().sum(1 if dim == 0 else 0)
    assert float(squares[[0, 3, -4, -1]].min()) > 0.05 * float(squares.sum())
    middle = (dim, 4, value.shape[dim] - 8)
    assert torch.equal(found.narrow(*middle), value.narrow(*middle))


def test_ends_stay_far_from_an_overflow() -> None:
    value = torch.full((4096, 16), 3.0).half()
    assert float(with_large_ends(0)(value, value).max()) < torch.finfo(torch.float16).max / 256
    large = torch.full((64, 16), 1e37)
    assert with_large_ends(0)(large, large) is large
    nothing = torch.zeros(64, 16)
    assert with_large_ends(0)(nothing, nothing) is nothing


@pytest.mark.parametrize("lost", LOST_BITS)
def test_a_lower_precision_rounds_all_last_bits_to_one_side(lost: int) -> None:
    value = torch.cat([torch.randn(4096), torch.tensor([0.0, -0.0, torch.inf, torch.nan, 1.0])])
    change = rounded_down(Draws(2), lost)
    found = change(value, value)
    assert torch.equal(found[-5:-1].nan_to_num(7.0), value[-5:-1].nan_to_num(7.0))
    ordinary = torch.cat([found[:4096], found[-1:]])
    rounded = ((ordinary.view(torch.int32) + (1 << (lost - 1))) & -(1 << lost)).view(torch.float32)
    part = (1 - rounded / ordinary) * 2.0 ** (24 - lost)
    assert bool((part > 0.25).all()) and bool((part < 1).all())
    assert bool((found.abs() <= value.abs())[~value.isnan()].all())
    assert change(value.half(), value.half()).dtype is torch.float16
