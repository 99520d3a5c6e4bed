"""roi_pool: against the definition, pixel by pixel and as an operator; boxes that mean nothing; every way to call it."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from roi_calls import (
    NAN,
    NO_IMAGES,
    TYPES,
    assert_empty_tensors_are_empty,
    assert_gives_zeros,
    assert_threads_do_not_matter,
    some_boxes,
)
from torch import Tensor

from opsmith.errors import DtypeError, ShapeError
from opsmith.ops.roi_pool import RoIPool, roi_pool, roi_pool_sized

pytestmark = pytest.mark.compile


def away_from_zero(edge: float) -> int:
    return int(math.copysign(math.floor(abs(edge) + 0.5), edge))


def by_hand(features: Tensor, box: list[float], bins: tuple[int, int], scale: float) -> Tensor:
    """One box from the definition, a pixel at a time: an oracle that shares nothing with the body. For short fractions."""
    left, top, right, bottom = (away_from_zero(edge * scale) for edge in box[1:])
    height, width = max(bottom - top + 1, 1), max(right - left + 1, 1)
    found = torch.zeros(features.shape[1], *bins)
    for c, i, j in itertools.product(range(features.shape[1]), range(bins[0]), range(bins[1])):
        rows = range(top + i * height // bins[0], top - (-(i + 1) * height // bins[0]))
        columns = range(left + j * width // bins[1], left - (-(j + 1) * width // bins[1]))
        inside = [
            features[int(box[0]), c, y, x].item()
            for y, x in itertools.product(rows, columns)
            if 0 <= y < features.shape[2] and 0 <= x < features.shape[3]
        ]
        found[c, i, j] = max(inside, default=0.0)
    return found


def test_boxes_by_hand() -> None:
    features = torch.randn(2, 2, 8, 11, generator=torch.Generator().manual_seed(1))
    boxes = [
        [0, 0, 0, 21, 15],
        [1, 3, 2, 3.5, 2.25],
        [1, -9, -7, 40, 30],
        [0, 18, 12, 3, 2],
        [0, 1, 3, 7, 9],
        [1, -5, 1, 5, 3],
    ]
    for bins in ((4, 2), (8, 16)):  # so that lengths of bins are exact
        expected = torch.stack([by_hand(features, box, bins, 0.5) for box in boxes])
        assert torch.equal(roi_pool(features, torch.tensor(boxes), bins, 0.5), expected)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize(("size", "scale"), [((7, 7), 0.37), ((2, 3), 1.0), ((1, 20), 0.25)])
def test_agrees_with_the_definition(dtype: torch.dtype, layout: Any, size: tuple[int, int], scale: float) -> None:
    generator = torch.Generator().manual_seed(size[1])
    # Few values, so that many are equal.
    features = torch.randint(-9, 9, (3, 5, 9, 14), generator=generator).to(dtype).to(memory_format=layout)
    features[0, 1, 3, 4], features[1, 2, 5], features[2, 0] = NAN, -math.inf, -math.inf
    boxes = some_boxes(17, 3, 40, size[0])
    leaf, exact = features.clone().requires_grad_(), features.double().requires_grad_()
    found, (expected, _) = (
        roi_pool(leaf, boxes, size, scale),
        roi_pool_sized.reference(exact, boxes, 3, 9, 14, *size, scale, True),
    )
    assert found.dtype == dtype
    assert found.is_contiguous(memory_format=layout)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=0, equal_nan=True)
    without_gradient = roi_pool(features, boxes, size, scale)
    torch.testing.assert_close(without_gradient, found.detach(), rtol=0, atol=0, equal_nan=True)
    outer = torch.randint(-4, 4, expected.shape, generator=generator).to(dtype)
    (by_kernel,) = torch.autograd.grad(found, leaf, outer)
    _, pixel = roi_pool_sized.reference(features, boxes, 3, 9, 14, *size, scale, True)
    by_reference = roi_pool_sized.gradient.reference(outer.double(), boxes, pixel, 3, 9, 14, scale)
    torch.testing.assert_close(by_kernel.double(), by_reference, rtol=0, atol=0)


@pytest.mark.parametrize("index", NO_IMAGES)
def test_a_box_that_is_none_gives_zeros(index: float) -> None:
    boxes = torch.tensor([[index, 0, 0, 4, 4], [0, 0, NAN, 4, 4], [0, 0, 0, math.inf, 4], [0, 0, -3e38, 4, 4]])
    assert_gives_zeros(roi_pool, boxes, 3)


def test_gradients_of_second_order() -> None:
    features = torch.randperm(60).double().reshape(1, 2, 5, 6).requires_grad_()
    boxes = some_boxes(6, 1, 9, 0)
    second = []
    for pooled in (
        roi_pool(features, boxes, (2, 3), 0.5),
        roi_pool_sized.reference(features, boxes, 1, 5, 6, 2, 3, 0.5)[0],
    ):
        (first,) = torch.autograd.grad(pooled.pow(3).sum(), features, create_graph=True)
        second.append(torch.autograd.grad(first.pow(2).sum(), features)[0])
    assert second[0].count_nonzero()
    torch.testing.assert_close(second[0], second[1])


def test_tensors_without_elements() -> None:
    assert_empty_tensors_are_empty(roi_pool)


def test_arguments_that_mean_nothing_are_refused() -> None:
    features, boxes = torch.randn(1, 1, 4, 4), torch.zeros(2, 5)
    with pytest.raises(AssertionError, match=r"The boxes tensor shape is not correct as Tensor\[K, 5\]"):
        roi_pool(features, boxes[:, 1:], 2)
    with pytest.raises(ShapeError, match="features"):
        roi_pool(features[0], boxes, 2)
    with pytest.raises(DtypeError, match="features is int32"):
        roi_pool(features.int(), boxes, 2)
    huge = features[..., :1, :1].expand(1, 1, 1 << 16, 1 << 15)
    for function in (roi_pool_sized, roi_pool_sized.reference):
        with pytest.raises(Exception, match="an image can have up to 2147483647 pixels; found 65536 x 32768"):
            function(huge, boxes, 1, 1 << 16, 1 << 15, 2, 2)


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    assert_threads_do_not_matter(roi_pool)


def test_vmap_and_the_module() -> None:
    boxes = some_boxes(9, 2, 9, 4)
    many = torch.randn(3, 2, 2, 6, 5)
    module = RoIPool(2, spatial_scale=0.5)
    assert torch.equal(torch.func.vmap(lambda x: module(x, boxes))(many), torch.stack([module(x, boxes) for x in many]))
    lists = [torch.tensor([[1.0, 2, 6, 8]]), torch.tensor([[3.0, 3, 9, 9]])]
    rois = torch.tensor([[0, 1.0, 2, 6, 8], [1, 3.0, 3, 9, 9]])
    assert torch.equal(module(many[0], lists), roi_pool(many[0], rois, (2, 2), 0.5))
    assert repr(module) == "RoIPool(output_size=2, spatial_scale=0.5)"
