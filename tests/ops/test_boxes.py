"""Boxes: overlaps and their loss, formats and clipping, against compositions and by hand, gradients, and what is refused."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from opsmith.errors import ArgumentTypeError, ArgumentValueError, DtypeError, ShapeError
from opsmith.ops.boxes import (
    box_convert,
    box_iou,
    clip_boxes,
    clip_boxes_to_image,
    generalized_box_iou,
    generalized_box_iou_loss,
)

pytestmark = pytest.mark.compile

devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
FORMATS = ("xyxy", "xywh", "cxcywh")
OVERLAPS = {False: box_iou, True: generalized_box_iou}


def boxes(*sizes: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Corners of boxes of 1 to 30 pixels that lie in 60."""
    random = torch.Generator().manual_seed(seed)
    corner = 30 * torch.rand(*sizes, 2, generator=random, dtype=torch.float64)
    return torch.cat([corner, corner + 1 + 29 * torch.rand(*sizes, 2, generator=random, dtype=torch.float64)], -1).to(
        dtype
    )


def composition(boxes1: Tensor, boxes2: Tensor, generalized: bool) -> Tensor:
    """The overlaps of corners from operators of PyTorch."""
    first, second = boxes1.unsqueeze(-2), boxes2.unsqueeze(-3)
    low, high = torch.maximum(first, second), torch.minimum(first, second)
    shared = (high[..., 2:] - low[..., :2]).clamp(min=0).prod(-1)
    areas = [(side[..., 2] - side[..., 0]) * (side[..., 3] - side[..., 1]) for side in (first, second)]
    union = areas[0] + areas[1] - shared
    if not generalized:
        return shared / union
    around = (low[..., 2:] - high[..., :2]).clamp(min=0).prod(-1)
    return shared / union - (around - union) / around


@devices
@pytest.mark.parametrize("generalized", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_overlaps_and_gradients_agree_with_the_composition(dtype: torch.dtype, generalized: bool, device: str) -> None:
    for sizes, others, fmt in (((70,), (131,), "xyxy"), ((3, 5), (3, 300), "xywh"), ((2, 260), (2, 1), "cxcywh")):
        sides = [box_convert(boxes(*sizes, seed=1), "xyxy", fmt), box_convert(boxes(*others, seed=2), "xyxy", fmt)]
        ours = [side.to(device, dtype).requires_grad_() for side in sides]
        theirs = [side.detach().double().requires_grad_() for side in ours]
        found = OVERLAPS[generalized](ours[0], ours[1], fmt)
        expected = composition(*(box_convert(side, fmt, "xyxy") for side in theirs), generalized)
        assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        rounding = torch.finfo(found.dtype).eps
        torch.testing.assert_close(found.double(), expected, rtol=8 * rounding, atol=64 * rounding)
        outer = torch.rand(expected.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).to(device)
        expected_gradients = torch.autograd.grad(expected, theirs, outer)
        for one, other in zip(torch.autograd.grad(found, ours, outer.to(found.dtype)), expected_gradients, strict=True):
            assert one.dtype == dtype
            bound = max(64 * rounding, 2 * torch.finfo(dtype).eps) * other.abs().max().item()
            torch.testing.assert_close(one.double(), other, rtol=0, atol=bound)


@devices
def test_overlaps_by_hand(device: str) -> None:
    square = torch.tensor([[0.0, 0.0, 4.0, 4.0]], device=device)
    others = torch.tensor(
        [[0.0, 0.0, 4.0, 4.0], [2.0, 0.0, 6.0, 4.0], [4.0, 0.0, 8.0, 4.0], [1.0, 1.0, 3.0, 3.0], [8.0, 0.0, 12.0, 4.0]],
        device=device,
    )
    torch.testing.assert_close(box_iou(square, others).tolist(), [[1.0, 1 / 3, 0.0, 0.25, 0.0]])
    torch.testing.assert_close(generalized_box_iou(square, others).tolist(), [[1.0, 1 / 3, 0.0, 0.25, -1 / 3]])
    losses = generalized_box_iou_loss(square.expand(5, 4), others)
    torch.testing.assert_close(losses.tolist(), [0.0, 2 / 3, 1.0, 0.75, 4 / 3], rtol=0, atol=1e-6)


@devices
def test_equal_boxes_overlap_by_exactly_one(device: str) -> None:
    many = boxes(500, dtype=torch.float32).to(device)
    assert (box_iou(many, many).diagonal() == 1).all()
    assert (generalized_box_iou(many, many).diagonal() == 1).all()


@devices
def test_boxes_without_an_area_or_with_a_nan(device: str) -> None:
    given = torch.tensor(
        [[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 4.0, 4.0], [math.nan, 0.0, 4.0, 4.0], [4.0, 4.0, 0.0, 0.0]], device=device
    )
    for generalized, function in OVERLAPS.items():
        found = function(given, given)
        assert torch.isnan(found[2]).all() and torch.isnan(found[:, 2]).all()
        assert torch.isnan(found[0, 0])
        assert found[0, 1] == 0
        torch.testing.assert_close(found, composition(given, given, generalized), equal_nan=True)
    assert generalized_box_iou_loss(given[:1], given[:1]).item() == 1.0


@devices
def test_equal_edges_share_a_gradient(device: str) -> None:
    ours = boxes(6, dtype=torch.float64).to(device).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    fixed = ours.detach().clone()
    fixed[3:, 0] += 1
    outer = torch.arange(36.0, dtype=torch.float64, device=device).reshape(6, 6)
    for generalized, function in OVERLAPS.items():
        (found,) = torch.autograd.grad(function(ours, fixed), ours, outer)
        (expected,) = torch.autograd.grad(composition(theirs, fixed, generalized), theirs, outer)
        torch.testing.assert_close(found, expected)


@devices
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64], ids=str)
def test_integers_do_not_overflow(dtype: torch.dtype, device: str) -> None:
    given = (4 * boxes(40)).round().to(device, dtype)
    found = box_iou(given, given.flip(0))
    assert found.dtype == torch.float32
    assert torch.equal(found, composition(given.double(), given.flip(0).double(), False).float())
    wide = torch.tensor([[0, 0, 100_000, 100_000]], device=device)
    assert box_iou(wide.int(), wide.int()).item() == 1.0


@devices
def test_batches_and_types_are_broadcast(device: str) -> None:
    single, many = boxes(7).to(device), boxes(3, 9, seed=1).to(device)
    found = box_iou(single, many)
    assert found.shape == (3, 7, 9)
    torch.testing.assert_close(found[2], composition(single, many[2], False))
    assert box_iou(single.float(), many).dtype == torch.float64
    assert box_iou(single.half(), many.float()).dtype == torch.float32
    strided = torch.stack([many, many], -1)[..., 0].transpose(0, 1).contiguous().transpose(0, 1)
    assert torch.equal(box_iou(single, strided), found)


@devices
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_losses_and_gradients_agree_with_the_overlaps(reduction: str, device: str) -> None:
    sides = [boxes(2, 300, seed=1).to(device), boxes(2, 300, seed=2).to(device)]
    ours = [side.clone().requires_grad_() for side in sides]
    theirs = [side.clone().requires_grad_() for side in sides]
    found = generalized_box_iou_loss(ours[0], ours[1], reduction, eps=0.0)
    each = 1 - composition(theirs[0].unsqueeze(-2), theirs[1].unsqueeze(-2), True)[..., 0, 0]
    expected = each if reduction == "none" else getattr(each, reduction)()
    torch.testing.assert_close(found, expected)
    for one, other in zip(
        torch.autograd.grad(found.sin().sum(), ours), torch.autograd.grad(expected.sin().sum(), theirs), strict=True
    ):
        torch.testing.assert_close(one, other)
    assert generalized_box_iou_loss(sides[0].half(), sides[1].half()).dtype == torch.float32


def test_gradcheck_of_both_orders() -> None:
    first, second = boxes(3, seed=1).requires_grad_(), boxes(2, seed=2).requires_grad_()
    calls: list[tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = [
        (box_iou, (first, second)),
        (lambda one, other: generalized_box_iou(one, other, "cxcywh"), (first, second)),
        (generalized_box_iou_loss, (first[:2], second)),
        (lambda one: box_convert(one, "cxcywh", "xyxy"), (first,)),
        (lambda one: clip_boxes(one, (20, 25)), (first,)),
    ]
    for function, inputs in calls:
        assert torch.autograd.gradcheck(function, inputs)
        assert torch.autograd.gradgradcheck(function, inputs)


@devices
@pytest.mark.parametrize(("source", "target"), [*itertools.product(FORMATS, FORMATS)])
def test_formats_become_one_another(source: str, target: str, device: str) -> None:
    corners = boxes(2, 300)
    x1, y1, x2, y2 = corners.unbind(-1)
    known = {
        "xyxy": corners,
        "xywh": torch.stack([x1, y1, x2 - x1, y2 - y1], -1),
        "cxcywh": torch.stack([(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1], -1),
    }
    given, expected = known[source].to(device), known[target].to(device)
    torch.testing.assert_close(box_convert(given, source, target), expected)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        found = box_convert(given.to(dtype), source, target)
        assert found.dtype == dtype
        wide = box_convert(given.to(dtype).double(), source, target)
        torch.testing.assert_close(found, wide.to(dtype), rtol=torch.finfo(dtype).eps, atol=1e-5)
    leaf = given.clone().requires_grad_()
    outer = torch.rand(given.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).to(device)
    (gradient,) = torch.autograd.grad(box_convert(leaf, source, target), leaf, outer)
    other = torch.rand(given.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).to(device)
    # <A x, y> = <x, A^T y>, of a linear map A
    torch.testing.assert_close((box_convert(other, source, target) * outer).sum(), (other * gradient).sum())


@devices
def test_formats_of_integers_and_of_one_box(device: str) -> None:
    given = torch.tensor([3, 3, 8, 7], device=device)
    assert box_convert(given, "xyxy", "xywh").tolist() == [3, 3, 5, 4]
    assert box_convert(given, "xyxy", "xywh").dtype == torch.int64
    assert box_convert(given, "xyxy", "cxcywh").tolist() == [5.5, 5.0, 5.0, 4.0]
    copy = box_convert(given.float(), "xyxy", "xyxy")
    assert copy.data_ptr() != given.data_ptr() and copy.tolist() == given.tolist()
    strided = torch.arange(16.0, device=device).reshape(4, 4).T
    assert torch.equal(box_convert(strided, "xywh", "xyxy"), box_convert(strided.contiguous(), "xywh", "xyxy"))


@devices
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int32], ids=str)
def test_clipping(dtype: torch.dtype, device: str) -> None:
    given = (2 * boxes(5, 200) - 20).to(device, dtype)
    found = clip_boxes_to_image(given, (30, 25))
    limits = torch.tensor([25, 30, 25, 30], device=device)
    assert found.dtype == dtype
    assert torch.equal(found, given.clamp(torch.zeros_like(limits), limits).to(dtype))
    assert clip_boxes is clip_boxes_to_image
    if dtype.is_floating_point:
        nan = torch.tensor([math.nan, -1.0, math.inf, -math.inf], device=device, dtype=dtype)
        torch.testing.assert_close(clip_boxes(nan, (30, 25)).tolist(), [math.nan, 0.0, 25.0, 0.0], equal_nan=True)


@devices
def test_clipping_passes_the_gradient_of_what_it_leaves(device: str) -> None:
    given = torch.tensor([[-1.0, 0.0, 25.0, 31.0], [0.5, -0.5, 26.0, 30.0]], device=device, requires_grad=True)
    (gradient,) = torch.autograd.grad(clip_boxes(given, (30, 25)).sum(), given)
    assert gradient.tolist() == [[0.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0]]


@devices
def test_no_boxes(device: str) -> None:
    none, some = torch.empty(0, 4, device=device, requires_grad=True), boxes(3).float().to(device).requires_grad_()
    for function in OVERLAPS.values():
        assert function(none, some).shape == (0, 3)
        found = function(some, none)
        assert found.shape == (3, 0)
        assert not torch.autograd.grad(found.sum(), some)[0].any()
    assert box_iou(torch.empty(0, 2, 4, device=device), torch.empty(0, 5, 4, device=device)).shape == (0, 2, 5)
    assert box_convert(none, "xyxy", "cxcywh").shape == clip_boxes(none, (3, 4)).shape == (0, 4)
    assert generalized_box_iou_loss(none, none).shape == (0,)
    mean = generalized_box_iou_loss(none, none, "mean")
    assert mean.item() == 0 and torch.autograd.grad(mean, none)[0].shape == (0, 4)


@pytest.mark.parametrize("function", [box_iou, generalized_box_iou])
def test_overlaps_refuse_what_does_not_fit(function: Callable[..., Tensor]) -> None:
    given = boxes(3)
    with pytest.raises(ShapeError, match=r"boxes2 is \[3, 3\], expected \[..., 4\]") as raised:
        function(given, given[:, :3])
    assert isinstance(raised.value, RuntimeError)
    with pytest.raises(ShapeError, match=r"boxes1 is \[4\], expected \[..., 4\] of several boxes"):
        function(given[0], given)
    with pytest.raises(ShapeError, match=r"boxes1 is \[3, 1, 4\] and boxes2 \[2, 1, 4\]"):
        function(given[:, None], given[:2, None])
    with pytest.raises(ArgumentValueError, match="Unsupported format 'yxyx'; expected xyxy, xywh or cxcywh"):
        function(given, given, "yxyx")
    with pytest.raises(ArgumentTypeError, match=r"boxes1 is .*expected a tensor; torch.from_numpy"):
        function(given.numpy(), given)
    with pytest.raises(ArgumentTypeError, match="fmt is"):
        function(given, given, 3)
    with pytest.raises(DtypeError, match=r"boxes2 torch.complex64"):
        function(given, given.to(torch.complex64))


def test_the_others_refuse_what_does_not_fit() -> None:
    given = boxes(3)
    with pytest.raises(
        ArgumentValueError, match="Unsupported Bounding Box Conversions for given in_fmt xywhr and out_fmt"
    ):
        box_convert(given, "xywhr", "xyxy")
    with pytest.raises(ShapeError, match=r"boxes is \[3, 3\]"):
        box_convert(given[:, :3], "xyxy", "xywh")
    for size in ((3,), 7, (2.5, 3), None, torch.tensor([2, 3])):
        with pytest.raises(ArgumentTypeError, match=r"size is .*, expected \(height, width\), two ints"):
            clip_boxes_to_image(given, size)
    with pytest.raises(ShapeError, match=r"boxes is \[\]"):
        clip_boxes(given[0, 0], (3, 4))
    with pytest.raises(ArgumentValueError, match="Invalid Value for arg 'reduction': 'max"):
        generalized_box_iou_loss(given, given, "max")
    with pytest.raises(ArgumentTypeError, match="eps is"):
        generalized_box_iou_loss(given, given, eps="small")
    with pytest.raises(ShapeError, match=r"boxes1 is \[3, 4\] and boxes2 \[2, 4\]"):
        generalized_box_iou_loss(given, given[:2])


def test_integers_that_pytorch_does_not_add_are_refused() -> None:
    boxes = torch.zeros(2, 4, dtype=torch.uint16)
    with pytest.raises(DtypeError, match=r"box_convert\(\): boxes is torch.uint16"):
        box_convert(boxes, "xyxy", "cxcywh")
    with pytest.raises(DtypeError, match=r"clip_boxes_to_image\(\): boxes is torch.uint16"):
        clip_boxes_to_image(boxes, (4, 4))
