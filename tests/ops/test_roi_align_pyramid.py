"""roi_align of a pyramid: against roi_align of each level, and as the module of torchvision's detectors."""

from __future__ import annotations

import math
from collections import OrderedDict

import pytest
import torch
from roi_calls import TYPES, some_boxes
from torch import Tensor

from opsmith.errors import ArgumentValueError, ShapeError
from opsmith.ops.roi_align import MultiScaleRoIAlign, roi_align, roi_align_pyramid, roi_align_pyramid_sized

pytestmark = pytest.mark.compile

SCALES = [2.0**-k for k in range(2, 9)]


def make_levels(count: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> list[Tensor]:
    """Levels of two images of 160 x 224 pixels, the last of them of one pixel."""
    generator = torch.Generator().manual_seed(count)
    shapes = [(2, 20, round(160 * scale), round(224 * scale)) for scale in SCALES[:count]]
    return [torch.randn(shape, generator=generator).to(device, dtype).requires_grad_() for shape in shapes]


def make_boxes(count: int, device: str = "cpu") -> Tensor:
    """Boxes from 4 to 1,000 pixels, some of which are none."""
    boxes = some_boxes(count, 2, 100, count)
    boxes[:, 3:] = boxes[:, 1:3] + 4 * 250 ** torch.rand(count, 2, generator=torch.Generator().manual_seed(1))
    boxes[1::8, 3] = math.nan
    return boxes.to(device)


def level_by_level(levels: list[Tensor], boxes: Tensor, size: int, ratio: int, aligned: bool) -> Tensor:
    """The definition: each box by roi_align from its level, by the formula of the paper."""
    root = ((boxes[:, 3] - boxes[:, 1]).double() * (boxes[:, 4] - boxes[:, 2])).sqrt()
    level = (4 + torch.log2(root / 224) + 1e-6).floor().clamp(2, 1 + len(levels)).nan_to_num(2) - 2
    found = torch.zeros(len(boxes), levels[0].shape[1], size, size, dtype=levels[0].dtype, device=boxes.device)
    for number, features in enumerate(levels):
        (own,) = torch.where(level == number)
        found = found.index_copy(0, own, roi_align(features, boxes[own], size, SCALES[number], ratio, aligned))
    return found


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("count", [1, 2, 4, 7])  # more than four are several calls
def test_each_box_is_pooled_from_its_level(
    count: int, layout: torch.memory_format, dtype: torch.dtype, device: str
) -> None:
    levels, boxes = make_levels(count, dtype, device), make_boxes(60, device)
    laid_out = [level.contiguous(memory_format=layout) for level in levels]
    found = roi_align_pyramid(laid_out, boxes, 3, SCALES[:count], 2, count == 2)
    expected = level_by_level(laid_out, boxes, 3, 2, count == 2)
    assert found.is_contiguous(memory_format=layout)
    assert torch.equal(found, expected)
    outer = torch.randn_like(expected)
    for mine, theirs in zip(
        torch.autograd.grad(found, levels, outer), torch.autograd.grad(expected, levels, outer), strict=True
    ):
        torch.testing.assert_close(mine, theirs)


def test_the_levels_of_boxes_at_the_limits() -> None:
    levels = [torch.tensor(float(number)).expand(1, 1, 800, 800) for number in range(4)]
    sides = {56.0: 0, 111.9: 0, 112.0: 1, 223.9: 1, 224.0: 2, 447.9: 2, 448.0: 3, 3000.0: 3, 0.0: 0}
    boxes = torch.tensor([[0.0, 0, 0, side, side] for side in sides])
    assert roi_align_pyramid(levels, boxes, 1, SCALES[:4], 1).flatten().tolist() == list(sides.values())
    # Of the sizes of boxes that the second level begins with.
    found = roi_align_pyramid(levels, boxes[2:3], 1, SCALES[:4], 1, canonical_scale=448, canonical_level=4)
    assert found.item() == 0


def test_gradients_of_any_order() -> None:
    boxes = some_boxes(6, 1, 30, 0)
    boxes[2, 1:] = torch.tensor([1.0, 1, 300, 200])
    levels = [torch.randn(1, 2, 5 - i, 6 - i, dtype=torch.float64, requires_grad=True) for i in range(3)]
    function = lambda *levels: roi_align_pyramid(levels, boxes, 2, SCALES[:3], 2)  # noqa: E731
    assert torch.autograd.gradcheck(function, levels)
    assert torch.autograd.gradgradcheck(function, levels)


def test_the_module_is_torchvision_s() -> None:
    levels = make_levels(4)
    features = OrderedDict(zip(["0", "1", "2", "3", "pool"], [*levels, torch.zeros(2, 20, 2, 3)], strict=True))
    module = MultiScaleRoIAlign(["0", "1", "2", "3"], 7, 2)
    boxes = [torch.tensor([[1.0, 2, 30, 40], [5, 5, 200, 150]]), torch.tensor([[10.0, 10, 120, 130]])]
    found = module(features, boxes, [(160, 224), (150, 200)])
    assert module.scales == SCALES[:4]
    rois = torch.cat([torch.nn.functional.pad(one, (1, 0), value=float(i)) for i, one in enumerate(boxes)])
    assert torch.equal(found, level_by_level(levels, rois, 7, 2, False))
    assert (
        repr(module) == "MultiScaleRoIAlign(featmap_names=['0', '1', '2', '3'], output_size=(7, 7), sampling_ratio=2)"
    )
    with pytest.raises(ValueError, match="images list should not be empty"):
        MultiScaleRoIAlign(["0"], 7, 2)(features, boxes, [])


def test_arguments_that_mean_nothing_are_refused() -> None:
    levels, boxes = make_levels(2), make_boxes(3)
    with pytest.raises(ArgumentValueError, match="found 2 levels and 3 scales"):
        roi_align_pyramid(levels, boxes, 2, SCALES[:3])
    with pytest.raises(ArgumentValueError, match="found 0 levels"):
        roi_align_pyramid([], boxes, 2, [])
    with pytest.raises(ArgumentValueError, match="scales of a pyramid are positive"):
        roi_align_pyramid(levels, boxes, 2, [1.0, 0.0])
    with pytest.raises(ShapeError, match="p1"):
        roi_align_pyramid([levels[0], levels[1][:1]], boxes, 2, SCALES[:2])
    sizes = [size for _ in range(4) for size in levels[0].shape[2:]]
    for function in (roi_align_pyramid_sized, roi_align_pyramid_sized.reference):
        for scales, areas, words in (
            ([1.0], [1.0, 2.0, 3.0], "a pyramid takes 4 scales and 3 areas; found 1 and 3"),
            ([1.0] * 4, [2.0, 1.0, 3.0], "areas must be numbers that do not fall"),
        ):
            with pytest.raises(Exception, match=words):
                function(*levels[:1] * 4, boxes, 2, *sizes, 2, 2, scales, areas)
