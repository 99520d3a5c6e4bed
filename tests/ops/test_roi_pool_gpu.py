"""Holds roi_pool's GPU kernels to the body, bit for bit: layouts, types, boxes of every size, capture, and large images."""

from __future__ import annotations

import random

import pytest
import torch
from graphs import capture
from layouts import laid_out
from roi_calls import NAN, NO_IMAGES, TYPES, assert_empty_tensors_are_empty, assert_gives_zeros, some_boxes
from torch import Tensor

from opsmith.ops.roi_pool import roi_pool, roi_pool_backward, roi_pool_sized

pytestmark = [pytest.mark.gpu, pytest.mark.compile]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "transposed", "inner", "offset"])
def test_agrees_with_the_definition(layout: str, dtype: torch.dtype) -> None:
    draw = random.Random(layout)
    for number in range(16):
        generator = torch.Generator().manual_seed(number)
        channels, height, width = draw.choice([1, 3, 8, 39, 264]), draw.choice([1, 9, 33]), draw.choice([1, 14, 50])
        size = (draw.choice([1, 7, 14, 20]), draw.choice([1, 2, 7, 33]))
        scale = draw.choice([0.25, 0.37, 1.0])
        boxes = some_boxes(9, 2, draw.choice([10, 60, 3000]), number, "cuda")
        # Few values, so that many are equal, and small whole numbers, whose sums are exact.
        features = torch.randint(-9, 9, (2, channels, height, width), generator=generator).double()
        features[torch.rand(features.shape, generator=generator) < 0.01] = NAN
        features[torch.rand(features.shape, generator=generator) < 0.2] = -torch.inf
        leaf = laid_out(features.cuda().to(dtype), layout).requires_grad_()
        found = roi_pool(leaf, boxes, size, scale)
        without_gradient = roi_pool(leaf.detach(), boxes, size, scale)
        expected, pixel = roi_pool_sized.reference(leaf.detach(), boxes, 2, height, width, *size, scale, True)
        # Features that are contiguous too, such as those of one pixel, have results that are contiguous.
        if layout == "channels_last" and not leaf.is_contiguous():
            assert found.is_contiguous(memory_format=torch.channels_last)
        for one in (found.detach(), without_gradient):
            torch.testing.assert_close(one, expected, rtol=0, atol=0, equal_nan=True)
        outer = torch.randint(-4, 5, expected.shape, generator=generator).cuda().to(dtype)
        (grad,) = torch.autograd.grad(found, leaf, laid_out(outer, layout))
        sums = roi_pool_backward.reference(outer.double(), boxes, pixel, 2, height, width, scale)
        assert torch.equal(grad, sums.to(dtype))


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize(("count", "images", "channels"), [(2, 2, 3), (300, 2, 264), (600, 9, 36)])
def test_agrees_with_the_cpu(layout: str, count: int, images: int, channels: int) -> None:
    # Few boxes are taken one by one. Many of this size cover the images so often that their bins are made of maxima of
    # squares. The sums of small whole numbers are exact.
    generator = torch.Generator().manual_seed(count)
    features = laid_out(torch.randint(-99, 99, (images, channels, 100, 150), generator=generator).float(), layout)
    boxes = some_boxes(count, images, 160, 3)
    boxes[0] = torch.tensor([1.0, 3, 2, 148, 95])
    outer = torch.randint(-4, 5, (count, channels, 7, 7), generator=generator).float()
    found = {}
    for device in ("cpu", "cuda"):
        leaf = features.to(device).requires_grad_()
        pooled = roi_pool(leaf, boxes.to(device), 7)
        found[device] = pooled.detach().cpu(), torch.autograd.grad(pooled, leaf, outer.to(device))[0].cpu()
    assert torch.equal(found["cpu"][0], found["cuda"][0])
    assert torch.equal(found["cpu"][0], roi_pool(features.cuda(), boxes.cuda(), 7).cpu())
    assert torch.equal(found["cpu"][1], found["cuda"][1])


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "transposed"])
@pytest.mark.parametrize(("channels", "bins"), [(136, (7, 7)), (35, (14, 4)), (64, (3, 16))], ids=str)
@pytest.mark.parametrize(("height", "width", "extent"), [(200, 300, 40.0), (60, 130, 156.0), (100, 260, 360.0)])
def test_boxes_of_every_size_in_one_call(
    height: int, width: int, extent: float, channels: int, bins: tuple[int, int], layout: str, dtype: torch.dtype
) -> None:
    # Boxes of up to 40 pixels do not cover the images: all bins are made one by one. The others cover them more than
    # ten times, and their bins are made of maxima of squares.
    generator = torch.Generator().manual_seed(0)
    size = extent ** torch.rand(400, 2, generator=generator) - 1
    corner = (torch.tensor([width + 10.0, height + 10.0]) - size / 2) * torch.rand(400, 2, generator=generator) - 5
    boxes = torch.cat([torch.randint(0, 3, (400, 1), generator=generator), corner, corner + size], 1)
    boxes[7, 1:] = torch.tensor([0.0, 40, width - 1, 42])
    boxes[8, 1:] = torch.tensor([40.0, 0, 42, height - 1])
    features = torch.randint(-9, 9, (2, channels, height, width), generator=generator).double()
    rare = torch.rand(features.shape, generator=generator)
    features[rare < 0.002] = NAN
    features[(rare > 0.01) & (rare < 0.012)] = torch.inf
    features[rare > 0.8] = -torch.inf
    features[1, :, :50, :50] = -torch.inf
    features = laid_out(features.to(dtype), layout)
    sizes = (2, height, width, *bins, 1.0)
    expected, pixels = roi_pool_sized.torch_op(features, boxes, *sizes, True)
    found, places = roi_pool_sized.torch_op(features.cuda(), boxes.cuda(), *sizes, True)
    torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(places.cpu(), pixels)
    values, nowhere = roi_pool_sized.torch_op(features.cuda(), boxes.cuda(), *sizes)
    torch.testing.assert_close(values.cpu(), expected, rtol=0, atol=0, equal_nan=True)
    assert nowhere.numel() == 0


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_squares_of_channels_that_are_made_one_group_after_the_other(layout: str) -> None:
    # So many that the maxima of all of them would take more memory than a group may, and the second group has fewer.
    generator = torch.Generator().manual_seed(0)
    features = torch.randint(-99, 99, (2, 136, 200, 300), generator=generator).double()
    boxes = some_boxes(300, 2, 200, 3)
    features, sizes = laid_out(features, layout), (2, 200, 300, 7, 7, 1.0)
    expected, pixels = roi_pool_sized.torch_op(features, boxes, *sizes, True)
    found, places = roi_pool_sized.torch_op(features.cuda(), boxes.cuda(), *sizes, True)
    assert torch.equal(found.cpu(), expected)
    assert torch.equal(places.cpu(), pixels)
    assert torch.equal(roi_pool_sized.torch_op(features.cuda(), boxes.cuda(), *sizes)[0].cpu(), expected)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("channels", [3, 40, 136])
def test_bins_of_every_shape_have_the_first_of_equal_maxima(channels: int, layout: str, dtype: torch.dtype) -> None:
    # Of each number of pixels along each axis, so of squares of 1, 2 and 4 that lie side by side or overlap. There are
    # two boxes of each shape, and two numbers, so that most maxima are in several squares of a bin.
    generator = torch.Generator().manual_seed(channels)
    height, width, most = 17, 33, 16
    side = torch.cartesian_prod(torch.arange(most), torch.arange(most)).float().repeat(2, 1)
    corner = ((torch.tensor([width, height]) - 1 - side) * torch.rand(len(side), 2, generator=generator)).round()
    boxes = torch.cat([torch.zeros(len(side), 1), corner, corner + side], 1)
    features = torch.randint(0, 2, (1, channels, height, width), generator=generator).double()
    rare = torch.rand(features.shape, generator=generator)
    features[rare < 0.01] = NAN
    features[(rare > 0.01) & (rare < 0.02)] = torch.inf
    features[:, :, :, 20:] = features[:, :, :, 20:].minimum(torch.tensor(-0.0, dtype=features.dtype))
    features[:, :, 10:, :10] = -torch.inf
    features = laid_out(features.to(dtype), layout)
    sizes = (1, height, width, 1, 1, 1.0)
    expected, pixels = roi_pool_sized.torch_op(features, boxes, *sizes, True)
    found, places = roi_pool_sized.torch_op(features.cuda(), boxes.cuda(), *sizes, True)
    torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(places.cpu(), pixels)
    values, _ = roi_pool_sized.torch_op(features.cuda(), boxes.cuda(), *sizes)
    torch.testing.assert_close(values.cpu(), expected, rtol=0, atol=0, equal_nan=True)


def test_there_are_kernels_for_the_gpu() -> None:
    for operator in (roi_pool_sized, roi_pool_backward):
        assert operator.torch_op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CUDA)


def test_what_is_no_box_and_what_is_empty() -> None:
    boxes = torch.tensor([[index, 0, 0, 4, 4] for index in NO_IMAGES] + [[0, NAN, 0, 4, 4], [0, 0, 3e38, 4, 4]])
    assert_gives_zeros(roi_pool, boxes.cuda(), 3)
    assert_empty_tensors_are_empty(roi_pool, "cuda")


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_runs_are_equal_bit_for_bit_and_a_graph_replays_them(layout: str) -> None:
    features = laid_out(torch.randn(2, 64, 100, 136), layout).cuda().requires_grad_()
    boxes = some_boxes(300, 2, 20, 1, "cuda")
    outer = torch.randn(300, 64, 7, 7, device="cuda")

    def step() -> tuple[Tensor, Tensor]:
        # Detached: a result that is kept would keep the features' node, which belongs to the stream it was made on.
        pooled = roi_pool(features, boxes, 7)
        return pooled.detach(), torch.autograd.grad(pooled, features, outer)[0]

    first = step()
    assert all(torch.equal(one, other) for one, other in zip(first, step(), strict=True))
    graph, captured = capture(step)
    # Which kernels make the boxes is found out in each replay: those of small boxes, those of large ones, and the former
    # again.
    for extent in (20, 200, 20):
        boxes.copy_(some_boxes(300, 2, extent, 2, "cuda"))
        graph.replay()
        torch.cuda.synchronize()
        assert all(torch.equal(one, other) for one, other in zip(captured, step(), strict=True))
        expected = roi_pool(features.detach().cpu(), boxes.cpu(), 7)
        assert torch.equal(captured[0].cpu(), expected)
        assert torch.equal(roi_pool(features.detach(), boxes, 7), captured[0])
        assert not torch.equal(captured[0], first[0])


@pytest.mark.whole_gpu
@pytest.mark.slow("tensors of more than 2^31 elements")
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_more_than_two_to_the_31_elements(layout: torch.memory_format) -> None:
    if torch.cuda.get_device_properties(0).total_memory < 20 << 30:
        pytest.skip("needs 10 GB of GPU memory")
    features = torch.zeros(3, 64, 4000, 3000, dtype=torch.float16, device="cuda").contiguous(memory_format=layout)
    features[2, 63, 3999, 2999] = 1
    boxes = torch.tensor([[2.0, 2990, 3990, 3000, 4000]], device="cuda")
    pooled, pixel = roi_pool_sized(features, boxes, 3, 4000, 3000, 1, 1), 3999 * 3000 + 2999
    assert pooled[0, 63].item() == 1
    del features
    where = torch.full((1, 64, 1, 1), pixel, dtype=torch.int32, device="cuda")
    gradient = roi_pool_backward(pooled, boxes, where, 3, 4000, 3000, 1.0)
    assert gradient[2, 63, 3999, 2999].item() == 1
