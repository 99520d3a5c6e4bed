"""What the tests of roi_align and of roi_pool have in common: boxes, and what holds for both functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "NAN",
    "NO_IMAGES",
    "TYPES",
    "assert_empty_tensors_are_empty",
    "assert_gives_zeros",
    "assert_threads_do_not_matter",
    "some_boxes",
]

TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
NAN = math.nan
# Indices of images that are none of two.
NO_IMAGES = (-1.0, 2.0, NAN, math.inf, -math.inf, 1e30, -1e30)


def some_boxes(count: int, images: int, extent: float, seed: int, device: str = "cpu") -> Tensor:
    """Boxes in images and across their edges; one in eight is of an image that there is not, and one is NaN."""
    generator = torch.Generator().manual_seed(seed)
    corner = (extent + 8) * torch.rand(count, 2, generator=generator) - 6
    size = extent * torch.rand(count, 2, generator=generator) - 1
    index = torch.randint(0, images, (count, 1), generator=generator).float()
    index[::8] = float(images)
    boxes = torch.cat([index, corner, corner + size], 1)
    boxes[1::8, 3] = NAN
    return boxes.to(device)


def assert_gives_zeros(function: Callable[..., Tensor], boxes: Tensor, *arguments: Any) -> None:
    """Boxes that are none read nothing, of features that are all NaN, and send no gradient."""
    features = torch.full((2, 40, 4, 4), NAN, requires_grad=True, device=boxes.device)
    found = function(features, boxes, *arguments)
    assert not found.count_nonzero()
    assert not torch.autograd.grad(found, features, torch.full_like(found, NAN))[0].count_nonzero()


def assert_empty_tensors_are_empty(function: Callable[..., Tensor], device: str = "cpu") -> None:
    """Whatever has no elements, the results have their shapes, and are zero."""
    boxes = torch.tensor([[0.0, 0, 0, 4, 4]], device=device)
    for shape, rois, size in (
        ((0, 3, 4, 4), boxes, (2, 2)),
        ((0, 3, 4, 4), boxes - 0.5, (2, 2)),
        ((1, 0, 4, 4), boxes, (2, 2)),
        ((1, 3, 0, 4), boxes, (2, 2)),
        ((1, 3, 4, 4), boxes[:0], (2, 2)),
        ((1, 3, 4, 4), boxes, (0, 2)),
    ):
        features = torch.randn(shape, device=device, requires_grad=True)
        found = function(features, rois, size)
        assert found.shape == (len(rois), shape[1], *size)
        assert not found.count_nonzero()
        (gradient,) = torch.autograd.grad(found.sum(), features)
        assert gradient.shape == shape
        assert not gradient.count_nonzero()


def assert_threads_do_not_matter(function: Callable[..., Tensor]) -> None:
    """Results are the same bits with one and with two threads."""
    features, boxes = torch.randn(2, 70, 40, 30), some_boxes(60, 2, 40, 3)
    threads = torch.get_num_threads()
    found = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            leaf = features.clone().requires_grad_()
            pooled = function(leaf, boxes, 7)
            found.append((pooled, torch.autograd.grad(pooled.pow(2).sum(), leaf)[0]))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])
