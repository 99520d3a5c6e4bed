"""roi_align of a feature pyramid: a function, and the module that torchvision's detectors have for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from opsmith.errors import ArgumentTypeError, ArgumentValueError, describe
from opsmith.ops._arguments import check_flags, check_ints, check_numbers
from opsmith.ops._boxes.boxes import Boxes, BroadcastingList2, as_rois, check_boxes, pair
from opsmith.ops.roi_align.pyramid import MOST_LEVELS, roi_align_pyramid_sized

__all__ = ["MultiScaleRoIAlign", "roi_align_pyramid"]

# What torchvision adds to a box's level, so that sizes of exactly a power of two times another are of the higher one.
_EPSILON = 1e-6


def roi_align_pyramid(
    features: Sequence[Tensor],
    boxes: Boxes,
    output_size: BroadcastingList2[int],
    scales: Sequence[float],
    sampling_ratio: int = -1,
    aligned: bool = False,
    canonical_scale: float = 224,
    canonical_level: float = 4,
) -> Tensor:
    """Return the features of each box, from the level of a pyramid that fits its size: [K, C, output height, output width].

    The level is that of equation (1) of Lin et al., "Feature Pyramid Networks for Object Detection"
    (https://arxiv.org/abs/1612.03144): floor(canonical_level + log2(sqrt(area) / canonical_scale)), where level k has a
    scale of 2**-k. Boxes that are too small or too large for all are of the first or the last one.

    Parameters
    ----------
    features
        The levels [N, C, H, W], of one element type, the largest first. The result has the memory format of the first.
    boxes
        As for `roi_align`, in the coordinates of the images.
    output_size
        How many bins a box has: an int, or (height, width).
    scales
        What the boxes' coordinates are multiplied with to be those of each level, 2**-k of consecutive k.
    sampling_ratio, aligned
        As for `roi_align`.
    canonical_scale, canonical_level
        The size of a box, as the root of its area, and its level.

    As for `roi_align`. On a GPU up to four levels are one launch, more of them several.

    Raises ArgumentValueError for a number of levels or scales that does not fit, and what `roi_align` raises.
    """
    name = "roi_align_pyramid"
    for argument, sequence, kind in (("features", features, Tensor), ("scales", scales, float | int)):
        if not isinstance(sequence, Sequence) or not all(isinstance(item, kind) for item in sequence):
            raise ArgumentTypeError(
                f"{name}(): {argument} is {describe(sequence)}, expected a list of "
                f"{'tensors' if kind is Tensor else 'numbers'}"
            )
    check_boxes(name, boxes)
    check_ints(name, sampling_ratio=sampling_ratio)
    check_flags(name, aligned=aligned)
    check_numbers(name, canonical_scale=canonical_scale, canonical_level=canonical_level)
    if not 1 <= len(features) == len(scales):
        raise ArgumentValueError(
            f"{name}(): a pyramid has one or more levels and a scale for each; found {len(features)} levels and "
            f"{len(scales)} scales"
        )
    if not all(0 < scale < math.inf for scale in scales):
        raise ArgumentValueError(f"{name}(): the scales of a pyramid are positive; found {list(scales)}")
    lowest = int(-math.log2(scales[0]))
    try:
        areas = [
            canonical_scale**2 * 4.0 ** (lowest + level - canonical_level - _EPSILON)
            for level in range(1, len(features))
        ]
    except OverflowError:
        raise ArgumentValueError(
            f"{name}(): canonical_scale {describe(canonical_scale)} and canonical_level {describe(canonical_level)} are too "
            "far from the levels that there are"
        ) from None
    rest = (*pair(name, output_size), int(sampling_ratio), bool(aligned))
    return _pool(list(features), as_rois(boxes), [float(scale) for scale in scales], areas, rest)


def _pool(
    levels: list[Tensor], rois: Tensor, scales: list[float], areas: list[float], rest: tuple[int, int, int, bool]
) -> Tensor:
    """Pool boxes from levels, which begin at these areas."""
    first = levels[0]
    images, channels = first.shape[:2] if first.dim() == 4 else (0, 0)  # the operator says what is wrong
    nothing = first.new_empty(images, channels, 0, 0)  # a level without pixels, whose boxes get zeros
    if len(levels) > MOST_LEVELS:
        # The first ones, and a level for all boxes of the others; then the others, and a level for all boxes before.
        head = MOST_LEVELS - 1
        return _pool([*levels[:head], nothing], rois, [*scales[:head], 1.0], areas[:head], rest) + _pool(
            [nothing, *levels[head:]], rois, [1.0, *scales[head:]], areas[head - 1 :], rest
        )
    lacking = MOST_LEVELS - len(levels)
    levels, scales = [*levels, *[nothing] * lacking], [*scales, *[1.0] * lacking]
    sizes = [size for level in levels for size in (level.shape[2:] if level.dim() == 4 else (0, 0))]
    height, width, sampling_ratio, aligned = rest
    result: Tensor = roi_align_pyramid_sized(
        *levels,
        rois,
        images,
        *sizes,
        height,
        width,
        scales,
        [*areas, *[math.inf] * lacking],
        sampling_ratio,
        aligned,
    )
    return result


class MultiScaleRoIAlign(nn.Module):
    """`roi_align_pyramid` as `torchvision.ops.MultiScaleRoIAlign`: the scales follow from the sizes of images and features.

    Parameters
    ----------
    featmap_names
        Which of the features are levels, by name.
    output_size
        How many bins a box has: an int, or (height, width).
    sampling_ratio
        As for `roi_align`.
    canonical_scale, canonical_level
        As for `roi_align_pyramid`.
    """

    def __init__(
        self,
        featmap_names: list[str],
        output_size: BroadcastingList2[int],
        sampling_ratio: int,
        *,
        canonical_scale: int = 224,
        canonical_level: int = 4,
    ) -> None:
        super().__init__()
        self.featmap_names = featmap_names
        self.sampling_ratio = sampling_ratio
        self.output_size = pair("MultiScaleRoIAlign", output_size)
        self.canonical_scale, self.canonical_level = canonical_scale, canonical_level
        self.scales: list[float] | None = None

    def forward(self, x: Mapping[str, Tensor], boxes: list[Tensor], image_shapes: list[tuple[int, int]]) -> Tensor:
        """Return the features of each box: [K, C, output height, output width].

        `x` has the features by name, in the order of the levels; others than those of `featmap_names` are passed over.
        `boxes` are those of each image, [L, 4], in its pixels, and `image_shapes` their heights and widths. The scales are
        worked out at the first call, as torchvision does it.
        """
        features = [level for name, level in x.items() if name in self.featmap_names]
        if self.scales is None:
            self.scales = _infer_scales(features, image_shapes)
        return roi_align_pyramid(
            features,
            boxes,
            self.output_size,
            self.scales,
            self.sampling_ratio,
            canonical_scale=self.canonical_scale,
            canonical_level=self.canonical_level,
        )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(featmap_names={self.featmap_names}, "
            f"output_size={self.output_size}, sampling_ratio={self.sampling_ratio})"
        )


def _infer_scales(features: list[Tensor], image_shapes: list[tuple[int, int]]) -> list[float]:
    """Return the power of two that each level is smaller by than the largest image."""
    if not image_shapes:
        raise ValueError("images list should not be empty")
    height = max(shape[0] for shape in image_shapes)
    return [2.0 ** round(math.log2(level.shape[-2] / height)) for level in features]
