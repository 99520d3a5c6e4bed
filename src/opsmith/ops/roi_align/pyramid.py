"""Defines roi_align of a feature pyramid, which takes each box from the level of its area, and its transpose."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float32
from torch import Tensor

import opsmith
from opsmith.errors import ArgumentValueError
from opsmith.ops._boxes.boxes import example_boxes
from opsmith.ops.roi_align.sized import roi_align_sized, roi_align_transposed

__all__ = ["MOST_LEVELS", "PyramidSizes", "roi_align_pyramid_sized", "roi_align_pyramid_transposed"]

MOST_LEVELS = 4  # as in pyramid.h


@dataclass(frozen=True)
class PyramidSizes:
    """How many images there are, how large each level's are, and how many bins a box has."""

    images: int
    height0: int
    width0: int
    height1: int
    width1: int
    height2: int
    width2: int
    height3: int
    width3: int
    out_height: int
    out_width: int

    def of_level(self, level: int) -> tuple[int, int, int, int, int]:
        """Return the sizes that `roi_align_sized` takes for a level."""
        height, width = (
            (self.height0, self.width0),
            (self.height1, self.width1),
            (self.height2, self.width2),
            (self.height3, self.width3),
        )[level]
        return self.images, height, width, self.out_height, self.out_width


# Levels are single tensors, because an operator returns no list of gradients; a missing one has no pixels.
@opsmith.op(
    cpu="pyramid.cpp",
    cuda="pyramid.cu",
    outputs="out",
    nondifferentiable="boxes",
    preserve_format={"out": "p0"},
    batch="C",
)
def roi_align_pyramid_sized(
    p0: Float[Tensor, "images C height0 width0"],
    p1: Float[Tensor, "images C height1 width1"],
    p2: Float[Tensor, "images C height2 width2"],
    p3: Float[Tensor, "images C height3 width3"],
    boxes: Float32[Tensor, "K 5"],
    sizes: PyramidSizes,
    scales: list[float],
    areas: list[float],
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Float[Tensor, "K C out_height out_width"]:
    """Average features at the sampling points of each bin of each box, from one of four levels.

    Call it through `roi_align_pyramid` or `MultiScaleRoIAlign`. `scales` has a number for each level; a
    box's level is how many of the three `areas`, which do not fall, its own area reaches, in float32, like the box.
    """
    _check_levels(scales, areas)
    own = _boxes_of_levels(boxes, areas)
    first, second, third, fourth = (
        roi_align_sized.reference(level, own[i], *sizes.of_level(i), scales[i], sampling_ratio, aligned)
        for i, level in enumerate((p0, p1, p2, p3))
    )
    result: Tensor = first + second + third + fourth
    return result


@roi_align_pyramid_sized.backward(
    cpu="pyramid.cpp",
    cuda="pyramid.cu",
    nondifferentiable="boxes",
    preserve_format={f"grad_p{level}": "grad_out" for level in range(MOST_LEVELS)},
)
def roi_align_pyramid_transposed(
    grad_out: Float[Tensor, "K C out_height out_width"],
    boxes: Float32[Tensor, "K 5"],
    sizes: PyramidSizes,
    scales: list[float],
    areas: list[float],
    sampling_ratio: int,
    aligned: bool,
) -> tuple[
    Float[Tensor, "images C height0 width0"],
    Float[Tensor, "images C height1 width1"],
    Float[Tensor, "images C height2 width2"],
    Float[Tensor, "images C height3 width3"],
]:
    """The gradient of each level's features: that of roi_align, of the boxes that are the level's."""
    _check_levels(scales, areas)
    own = _boxes_of_levels(boxes, areas)
    first, second, third, fourth = (
        roi_align_transposed.reference(grad_out, own[i], *sizes.of_level(i), scales[i], sampling_ratio, aligned)
        for i in range(MOST_LEVELS)
    )
    return first, second, third, fourth


roi_align_pyramid_transposed.gradient_is(
    roi_align_pyramid_sized, **{f"p{level}": f"grad_grad_p{level}" for level in range(MOST_LEVELS)}, out="grad_grad_out"
)


@roi_align_pyramid_sized.examples
def _examples() -> list[dict[str, object]]:
    """Boxes of all levels and of none; the second time there are two levels."""
    random = torch.Generator().manual_seed(0)
    sizes = [(12, 17), (6, 9), (3, 5), (2, 3)]
    found = []
    for count in (MOST_LEVELS, 2):
        shapes = [size if level < count else (0, 0) for level, size in enumerate(sizes)]
        levels = {f"p{i}": torch.randn(2, 3, *shape, generator=random) for i, shape in enumerate(shapes)}
        named = {f"height{i}": shape[0] for i, shape in enumerate(shapes)}
        named |= {f"width{i}": shape[1] for i, shape in enumerate(shapes)}
        found.append(
            {
                **levels,
                "boxes": example_boxes(),
                "images": 2,
                **named,
                "out_height": 3,
                "out_width": 2,
                "scales": [0.5, 0.25, 0.125, 0.0625],
                "areas": [30.0, 60.0, 120.0] if count == MOST_LEVELS else [60.0, math.inf, math.inf],
                "sampling_ratio": 2,
            }
        )
    return found


def _check_levels(scales: list[float], areas: list[float]) -> None:
    if len(scales) != MOST_LEVELS or len(areas) != MOST_LEVELS - 1:
        raise ArgumentValueError(
            f"a pyramid takes {MOST_LEVELS} scales and {MOST_LEVELS - 1} areas; found {len(scales)} and {len(areas)}"
        )
    if not all(low <= high for low, high in zip([-math.inf, *areas], areas, strict=False)):
        raise ArgumentValueError("areas must be numbers that do not fall")


def _boxes_of_levels(boxes: Tensor, areas: list[float]) -> list[Tensor]:
    """Return the boxes of each level: those of the others are of no image."""
    area = (boxes[:, 3] - boxes[:, 1]) * (boxes[:, 4] - boxes[:, 2])
    level = torch.stack([area >= limit for limit in areas]).sum(0)
    no_image = torch.tensor([-1.0, 0, 0, 0, 0], device=boxes.device)
    return [torch.where((level == i)[:, None], boxes, no_image) for i in range(MOST_LEVELS)]
