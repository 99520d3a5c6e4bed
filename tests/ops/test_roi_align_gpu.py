"""Holds roi_align's GPU kernels to the body in float64: layouts, types, boxes of every size, streams, and large images."""

from __future__ import annotations

import random

import pytest
import torch
from graphs import capture
from layouts import laid_out
from roi_calls import NAN, NO_IMAGES, TYPES, assert_empty_tensors_are_empty, assert_gives_zeros, some_boxes
from torch import Tensor

from opsmith.ops.roi_align import roi_align, roi_align_sized, roi_align_transposed

pytestmark = [pytest.mark.gpu, pytest.mark.compile]

LAYOUTS = ["contiguous", "channels_last", "transposed", "inner", "offset"]


def near(found: Tensor, expected: Tensor) -> None:
    eps = max(torch.finfo(found.dtype).eps, 1e-13)
    allowed = 16 * eps * max(float(expected.abs().max()), 1)  # weights are sums of up to 100 shares
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=allowed)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_agrees_with_the_definition(layout: str, dtype: torch.dtype) -> None:
    draw = random.Random(layout)
    for number in range(24):
        generator = torch.Generator().manual_seed(number)
        channels, height, width = draw.choice([1, 3, 8, 39, 70, 264]), draw.choice([1, 9, 33]), draw.choice([1, 14, 50])
        # Up to 8, 16 and more bins along an axis are one, two and several pieces of a box.
        size = (draw.choice([1, 7, 14, 20]), draw.choice([1, 2, 7, 33]))
        rest = (draw.choice([0.25, 0.37, 1.0]), draw.choice([-1, 0, 1, 2, 5, 100]), draw.random() < 0.5)
        # 3,000 pixels have more taps than a block stores.
        boxes = some_boxes(17, 2, draw.choice([10, 60, 3000]), number, "cuda")
        features = torch.randn(2, channels, height, width, generator=generator).cuda()
        leaf = laid_out(features.to(dtype), layout).requires_grad_()
        exact = leaf.detach().double().requires_grad_()
        found = roi_align(leaf, boxes, size, *rest)
        expected = roi_align_sized.reference(exact, boxes, 2, height, width, *size, *rest)
        assert found.is_contiguous(memory_format=torch.channels_last) or layout != "channels_last"
        near(found.detach(), expected.detach())
        outer = torch.randn(expected.shape, generator=generator).cuda().to(dtype)
        (grad,) = torch.autograd.grad(found, leaf, laid_out(outer, layout))
        near(grad, torch.autograd.grad(expected, exact, outer.double())[0])


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "offset"])
@pytest.mark.parametrize("size", [(33, 50), (60, 64), (1, 9), (9, 1)], ids=str)
def test_planes_in_shared_memory_agree(size: tuple[int, int], layout: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    boxes = torch.cat([some_boxes(24, 2, extent, 1, "cuda") for extent in (10, 160)])
    boxes = torch.cat([boxes, torch.tensor([[1.0, 8, 8, 8 + 14 / 0.25, 8 + 14 / 0.25]], device="cuda")])
    features = laid_out(torch.randn(2, 131, *size, generator=generator).cuda().to(dtype), layout)
    # Up to 8 columns of bins have four lanes each and more have two; from 17 rows or columns on a box has several pieces.
    for bins in ((7, 7), (8, 3), (14, 3), (14, 14), (16, 16), (17, 17), (1, 40), (40, 1), (32, 32), (33, 17)):
        found = roi_align(features, boxes, bins, 0.25, 2, True)
        near(found, roi_align_sized.reference(features.double(), boxes, 2, *size, *bins, 0.25, 2, True))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("width", [32, 33])
def test_planes_keep_pixels_without_a_weight_out(width: int, dtype: torch.dtype) -> None:
    # Points lie on whole pixels, and every other row or column is NaN.
    boxes = (
        torch.tensor([[0.0, 0.5, 0.5, 0.5 + 28, 0.5 + 28], [0.0, 3.5, 1.5, 3.5 + 28, 1.5 + 28]]).cuda().repeat(40, 1)
    )
    for rows, columns in ((slice(1, None, 2), slice(None)), (slice(None), slice(1, None, 2))):
        features = torch.randn(1, 272, 32, width)
        features[:, :, rows, columns] = NAN
        features = features.cuda().to(dtype)
        found = roi_align(features, boxes, 7, 1.0, 2, True)
        expected = roi_align_sized.reference(features.double(), boxes, 1, 32, width, 7, 7, 1.0, 2, True)
        torch.testing.assert_close(found.double(), expected, rtol=0.01, atol=0.01, equal_nan=True)
        assert found.isfinite().any()
        assert found.isnan().any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("bins", [(7, 7), (33, 17), (17, 7)], ids=str)  # one piece of a box, six, and two
def test_planes_of_many_images_whose_boxes_are_in_any_order(bins: tuple[int, int], dtype: torch.dtype) -> None:
    features = torch.randn(7, 40, 24, 32, device="cuda").to(dtype)
    for images in (7, 3):  # the others have no boxes
        boxes = some_boxes(400, images, 24, 5, "cuda")
        near(
            roi_align(features, boxes, bins, 1.0, 2),
            roi_align_sized.reference(features.double(), boxes, 7, 24, 32, *bins, 1.0, 2),
        )


def test_there_are_kernels_for_the_gpu() -> None:
    for operator in (roi_align_sized, roi_align_transposed):
        assert operator.torch_op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CUDA)


def test_what_is_no_box_and_what_is_empty() -> None:
    boxes = torch.tensor([[index, 0, 0, 4, 4] for index in NO_IMAGES] + [[0, NAN, 0, 4, 4], [0, 0, 3e38, 4, 4]])
    for ratio in (-1, 2):
        assert_gives_zeros(roi_align, boxes.cuda(), 3, 1.0, ratio)
    assert_empty_tensors_are_empty(roi_align, "cuda")


@pytest.mark.parametrize("ratio", [1, 2])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_only_pixels_with_a_weight_take_part(layout: str, ratio: int) -> None:
    features = torch.zeros(1, 136, 6, 6)
    features[0, :, 2] = NAN
    features[0, :, 5, 5] = torch.inf
    features = laid_out(features, layout).cuda()
    boxes = torch.tensor(
        [[0.0, 0, 0, 2, 2], [0, 0, 1, 6, 4], [0, 4, 4, 6, 6], [0, 0.5, 0.5, 1.5, 1.5], [0, 0, 0, 8, 8]]
    ).cuda()
    found = roi_align(features, boxes, 2, 1.0, ratio)
    expected = roi_align_sized.reference(features, boxes, 1, 6, 6, 2, 2, 1.0, ratio)
    torch.testing.assert_close(found, expected, equal_nan=True)
    assert found.isnan().any()
    assert ratio == 1 or found[4, :, 0].isfinite().all()  # whose points are on the rows 1 and 3


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_runs_are_equal_bit_for_bit_and_need_no_memory(layout: str) -> None:
    features = laid_out(torch.randn(2, 64, 100, 136), layout).cuda().requires_grad_()
    boxes = some_boxes(500, 2, 400, 1, "cuda")
    pooled = roi_align(features, boxes, 7, 0.25, 2)
    outer = torch.randn_like(pooled)
    first = torch.autograd.grad(pooled, features, outer, retain_graph=True)[0]
    torch.cuda.reset_peak_memory_stats()
    second = torch.autograd.grad(pooled, features, outer)[0]
    # What was asked for, as the allocator may give more; and now, as comparing takes memory too.
    memory = torch.cuda.memory_stats()
    assert memory["requested_bytes.all.peak"] - memory["requested_bytes.all.current"] <= 0.1 * features.nbytes
    assert torch.equal(first, second)
    assert torch.equal(pooled, roi_align(features, boxes, 7, 0.25, 2))


@pytest.mark.parametrize("ratio", [-1, 2])
def test_capture_and_replay_on_another_stream(ratio: int) -> None:
    features = torch.randn(2, 136, 40, 40, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    boxes = some_boxes(33, 2, 40, 2, "cuda")

    def step() -> tuple[Tensor, Tensor]:
        pooled = roi_align(features, boxes, 7, 1.0, ratio)
        return pooled, torch.autograd.grad(pooled, features, torch.ones_like(pooled))[0]

    graph, captured = capture(step)
    with torch.no_grad():
        features.copy_(torch.randn_like(features))
        boxes.copy_(some_boxes(33, 2, 40, 3, "cuda"))
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(one, other) for one, other in zip(captured, step(), strict=True))


@pytest.mark.whole_gpu
@pytest.mark.slow("tensors of more than 2^31 elements")
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_more_than_two_to_the_31_elements(layout: torch.memory_format) -> None:
    if torch.cuda.get_device_properties(0).total_memory < 20 << 30:
        pytest.skip("needs 10 GB of GPU memory")
    features = torch.zeros(3, 64, 4000, 3000, dtype=torch.float16, device="cuda").contiguous(memory_format=layout)
    features[2, 63, 3999, 2999] = 1
    boxes = torch.tensor([[2.0, 2999, 3999, 3000, 4000]], device="cuda")
    pooled = roi_align(features, boxes, 1, 1.0, 1, True)
    assert pooled[0, 63].item() == 1  # its only point is the last pixel
    del features
    gradient = roi_align_transposed(pooled, boxes, 3, 4000, 3000, 1, 1, 1.0, 1, True)
    assert gradient[2, 63, 3999, 2999].item() == 1
