"""roi_align: against the definition, point by point and as operators; boxes that mean nothing; every way to call it."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import numpy
import pytest
import torch
from layouts import laid_out
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
from torch._dynamo.testing import CompileCounterWithBackend

from opsmith.errors import DtypeError, ShapeError
from opsmith.ops.roi_align import RoIAlign, roi_align, roi_align_sized, roi_align_transposed

pytestmark = pytest.mark.compile


def interpolated(plane: Tensor, y: float, x: float) -> float:
    """A plane's value between its pixels, 0 from one pixel outside on."""
    height, width = plane.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    value = 0.0
    for row, column in itertools.product((math.floor(y), math.floor(y) + 1), (math.floor(x), math.floor(x) + 1)):
        weight = max(0, 1 - abs(y - row)) * max(0, 1 - abs(x - column))
        if weight > 0:
            value += weight * float(plane[row, column])
    return value


def by_hand(
    features: Tensor, box: list[float], bins: tuple[int, int], scale: float, ratio: int, aligned: bool
) -> Tensor:
    """One box from the definition, a sampling point at a time: an oracle that shares nothing with the body."""
    image, x1, y1, x2, y2 = box
    float32 = numpy.float32  # in which points are found
    offset = float32(0.5 if aligned else 0)
    left, top, right, bottom = (float32(edge) * float32(scale) - offset for edge in (x1, y1, x2, y2))
    height, width = bottom - top, right - left
    if not aligned:
        height, width = max(height, float32(1)), max(width, float32(1))
    bin_y, bin_x = height / float32(bins[0]), width / float32(bins[1])
    rows, columns = (ratio if ratio > 0 else math.ceil(side) for side in (bin_y, bin_x))
    found = torch.zeros(features.shape[1], *bins, dtype=torch.float64)
    for c, i, j in itertools.product(range(features.shape[1]), range(bins[0]), range(bins[1])):
        total = 0.0
        for a, b in itertools.product(range(rows), range(columns)):
            y = top + float32(i) * bin_y + float32(a + 0.5) * bin_y / float32(rows)
            x = left + float32(j) * bin_x + float32(b + 0.5) * bin_x / float32(columns)
            total += interpolated(features[int(image), c], float(y), float(x))
        found[c, i, j] = total / max(rows * columns, 1)
    return found


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [-1, 1, 2, 3])
def test_boxes_by_hand(ratio: int, aligned: bool) -> None:
    draw = random.Random(ratio)
    features = torch.randn(2, 2, 8, 11, generator=torch.Generator().manual_seed(1))
    boxes = [[0, 0, 0, 22, 16], [1, 3, 2, 3.5, 2.25], [1, -9, -7, 40, 30], [0, 18, 12, 3, 2], [0, 22, 16, 24, 18]]
    boxes += [[draw.randint(0, 1), *(draw.uniform(-4, 24) for _ in range(4))] for _ in range(4)]
    expected = torch.stack([by_hand(features, box, (3, 2), 0.5, ratio, aligned) for box in boxes])
    found = roi_align(features, torch.tensor(boxes), (3, 2), 0.5, ratio, aligned)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)


def cases(count: int) -> list[Any]:
    """Calls at random, as (layout, element type, channels, size of the output, arguments)."""
    draw = random.Random(0)
    found = []
    for number in range(count):
        layout = ("contiguous", "channels_last", "transposed", "inner")[number // 4 % 4]
        size = (draw.randint(1, 8), draw.choice([1, 2, 7, 21]))
        arguments = {
            "spatial_scale": draw.choice([0.25, 0.37, 1.0]),
            "sampling_ratio": draw.choice([-1, 0, 1, 2, 5]),
            "aligned": draw.random() < 0.5,
        }
        channels = draw.choice([1, 3, 16, 39, 70])
        found.append(pytest.param(layout, TYPES[number % 4], channels, size, arguments, id=str(number)))
    return found


@pytest.mark.parametrize(("layout", "dtype", "channels", "size", "arguments"), cases(48))
def test_agrees_with_the_definition(
    layout: str, dtype: torch.dtype, channels: int, size: tuple[int, int], arguments: dict[str, Any]
) -> None:
    generator = torch.Generator().manual_seed(channels)
    features = laid_out(torch.randn(3, channels, 9, 14, generator=generator).to(dtype), layout)
    boxes = some_boxes(17, 3, 40, channels)
    rest = (boxes, 3, 9, 14, *size, *arguments.values())
    leaf, exact = features.clone().requires_grad_(), features.double().requires_grad_()
    found, expected = roi_align(leaf, boxes, size, **arguments), roi_align_sized.reference(exact, *rest)
    assert found.dtype == dtype
    assert found.is_contiguous(memory_format=torch.channels_last) or layout != "channels_last"
    near(found.detach(), expected.detach())
    assert not found[::8].count_nonzero()
    assert not found[1::8].count_nonzero()
    outer = torch.randn(expected.shape, generator=generator).to(dtype)
    (by_kernel,) = torch.autograd.grad(found, leaf, laid_out(outer, layout))
    (by_autograd,) = torch.autograd.grad(expected, exact, outer.double())
    near(by_kernel, by_autograd)
    near(roi_align_transposed.reference(outer.double(), *rest), by_autograd)


def near(found: Tensor, expected: Tensor) -> None:
    assert found.shape == expected.shape
    allowed = 4 * torch.finfo(found.dtype).eps * max(float(expected.abs().max()), 1)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=allowed)


@pytest.mark.parametrize("ratio", [-1, pytest.param(2, marks=pytest.mark.slow("finite differences"))])
def test_gradients_of_any_order_are_roi_align_again(ratio: int) -> None:
    boxes = some_boxes(6, 2, 9, 0)
    features = torch.randn(2, 2, 5, 6, dtype=torch.float64, requires_grad=True)
    function = lambda x: roi_align(x, boxes, (2, 3), 0.5, ratio, True)  # noqa: E731
    assert torch.autograd.gradcheck(function, features)
    assert torch.autograd.gradgradcheck(function, features)


def test_boxes_have_no_gradient_and_a_gradient_keeps_no_features() -> None:
    boxes = torch.tensor([[0.0, 1, 1, 5, 5]], requires_grad=True)
    features = torch.randn(1, 2, 8, 8, requires_grad=True)
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        roi_align(features, boxes, 2).sum().backward()
    assert boxes.grad is None
    assert all(tensor.numel() <= boxes.numel() for tensor in kept)


@pytest.mark.parametrize(
    "box",
    [
        *([0.0, *numbers] for numbers in ((NAN, 0, 4, 4), (0, 0, 4, math.inf), (-math.inf, 0, 4, 4), (0, 3e38, 4, 4))),
        *([index, 0.0, 0, 4, 4] for index in NO_IMAGES),
    ],
    ids=str,
)
def test_a_box_that_is_none_gives_zeros(box: list[float]) -> None:
    for ratio in (-1, 2):
        assert_gives_zeros(roi_align, torch.tensor([box]), 3, 1.0, ratio)


def test_an_index_is_rounded_towards_zero_and_huge_boxes_end() -> None:
    features = torch.randn(2, 1, 4, 4)
    boxes = torch.tensor([[-0.5, 0, 0, 4, 4], [1.9, 0, 0, 4, 4]])
    assert torch.equal(roi_align(features, boxes, 2), roi_align(features, boxes.trunc(), 2))
    huge = torch.tensor([[0.0, -1e6, -1e6, 1e6, 1e6], [0.0, 0, 0, 1e6, 4], [0.0, -1000, 0, 3, 3000]])
    found, expected = roi_align(features, huge, 2), roi_align_sized.reference(features, huge, 2, 4, 4, 2, 2)
    assert found.count_nonzero() > 0
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-12)


def test_only_pixels_with_a_weight_take_part() -> None:
    features = torch.zeros(1, 1, 6, 6)
    features[0, 0, 2] = NAN
    features[0, 0, 5, 5] = math.inf
    boxes = torch.tensor([[0.0, 0, 0, 2, 2], [0.0, 0, 1, 6, 4], [0.0, 4, 4, 6, 6], [0.0, 0.5, 0.5, 1.5, 1.5]])
    found = roi_align(features, boxes, 2, 1.0, 1)
    expected = roi_align_sized.reference(features, boxes, 1, 6, 6, 2, 2, 1.0, 1)
    torch.testing.assert_close(found, expected, equal_nan=True)
    assert found.isnan().any()
    assert found.isinf().any()
    # At whole pixels: rows 0 and 1 alone.
    assert not roi_align(features, torch.tensor([[0.0, 0, -0.5, 4, 1.5]]), 2, 1.0, 1).count_nonzero()


def test_boxes_of_any_type_and_as_a_list() -> None:
    features = torch.randn(2, 3, 9, 9, dtype=torch.bfloat16)
    lists = [torch.tensor([[1.0, 2, 6, 8], [0.5, 0, 3, 3]]), torch.tensor([[3.0, 3, 9, 9]])]
    rois = torch.tensor([[0, 1.0, 2, 6, 8], [0, 0.5, 0, 3, 3], [1, 3.0, 3, 9, 9]])
    expected = roi_align(features, rois, 2)
    assert expected.dtype == torch.bfloat16
    for dtype in TYPES:
        assert torch.equal(roi_align(features, rois.to(dtype), 2), expected)
        assert torch.equal(roi_align(features, [one.to(dtype) for one in lists], 2), expected)
    assert torch.equal(roi_align(features, tuple(lists), [2, 2]), expected)
    assert roi_align(features, [], 2).shape == (0, 3, 2, 2)
    assert roi_align(features, [rois[:0, 1:], lists[1]], 2).shape == (1, 3, 2, 2)


def test_tensors_without_elements() -> None:
    assert_empty_tensors_are_empty(roi_align)


def test_arguments_that_mean_nothing_are_refused() -> None:
    features, boxes = torch.randn(1, 1, 4, 4), torch.zeros(2, 5)
    for wrong, words in (
        (torch.zeros(2, 4), r"The boxes tensor shape is not correct as Tensor\[K, 5\]"),
        ([torch.zeros(2, 5)], r"boxes list is not correct as List\[Tensor\[L, 4\]\]"),
        (3, r"boxes is expected to be a Tensor\[L, 5\] or a List\[Tensor\[K, 4\]\]"),
    ):
        with pytest.raises(AssertionError, match=words):
            roi_align(features, wrong, 2)
    with pytest.raises(ShapeError, match="features"):
        roi_align(features[0], boxes, 2)
    with pytest.raises(DtypeError, match="features is int32"):
        roi_align(features.int(), boxes, 2)
    for function in (roi_align_sized, roi_align_sized.reference):
        with pytest.raises(Exception, match="sampling_ratio can be up to 1024; found 1025"):
            function(features, boxes, 1, 4, 4, 2, 2, 1.0, 1025)
    with pytest.raises(Exception, match="-1"):
        roi_align(features, boxes, (2, -1))


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    assert_threads_do_not_matter(roi_align)


def test_vmap_autocast_and_functional_gradients() -> None:
    boxes = some_boxes(9, 2, 9, 4)
    many = torch.randn(3, 2, 2, 6, 5, dtype=torch.float64)
    single = lambda features: roi_align(features, boxes, 2)  # noqa: E731
    torch.testing.assert_close(torch.func.vmap(single)(many), torch.stack([single(one) for one in many]))
    loss = lambda features: single(features).pow(3).sum()  # noqa: E731
    found = torch.func.vmap(torch.func.grad(loss))(many)
    torch.testing.assert_close(found, torch.stack([torch.func.grad(loss)(one) for one in many]))
    half = many[0].bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(roi_align(half, boxes, 2), single(half))


@pytest.mark.slow("compiles with Inductor")
def test_one_graph_serves_all_sizes() -> None:
    counter = CompileCounterWithBackend("aot_eager")
    function = lambda features, boxes: roi_align(features, boxes, (3, 2), 0.5, -1, True).sin()  # noqa: E731
    traced = torch.compile(function, fullgraph=True, dynamic=True, backend=counter)
    for height, width, count in ((6, 9, 11), (13, 20, 12), (17, 8, 7)):
        boxes = some_boxes(count, 2, 16, count)
        leaves = [torch.randn(2, 3, height, width, requires_grad=True) for _ in range(2)]
        leaves[1].data.copy_(leaves[0].data)
        traced(leaves[0], boxes).sum().backward()
        function(leaves[1], boxes).sum().backward()
        torch.testing.assert_close(leaves[0].grad, leaves[1].grad)
    assert counter.frame_count == 1


def test_the_module_is_the_function() -> None:
    module = RoIAlign((3, 2), spatial_scale=0.5, sampling_ratio=2, aligned=True)
    features, boxes = torch.randn(2, 3, 8, 8), some_boxes(5, 2, 8, 5)
    assert torch.equal(module(features, boxes), roi_align(features, boxes, (3, 2), 0.5, 2, True))
    assert repr(module) == "RoIAlign(output_size=(3, 2), spatial_scale=0.5, sampling_ratio=2, aligned=True)"
