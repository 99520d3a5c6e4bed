"""Reads the boxes of roi_align and roi_pool, tells valid ones from others, and makes some to check operators with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import torch
from torch import Tensor

from opsmith.errors import describe
from opsmith.ops._arguments import TensorShapeError, TensorTypeError, read_pair

if TYPE_CHECKING:
    _T = TypeVar("_T")
    BroadcastingList2: TypeAlias = _T | Sequence[_T]
else:
    from torch.jit.annotations import BroadcastingList2  # what TorchScript calls one number or two

__all__ = ["Boxes", "BroadcastingList2", "as_rois", "check_boxes", "edges_and_images", "example_boxes", "pair"]

Boxes = Tensor | list[Tensor]

# In pixels of the features. The same number is in roi_align.h and roi_pool.h.
_FARTHEST = float(1 << 20)


def pair(function: str, size: BroadcastingList2[int]) -> tuple[int, int]:
    """Return an output size as (height, width); raises ArgumentTypeError for what is neither an int nor two of them."""
    if torch.jit.is_scripting():  # type: ignore[attr-defined]
        return size[0], size[1]  # type: ignore[index]
    return read_pair(function, "output_size", size)


def check_boxes(function: str, boxes: Any) -> None:
    """Raise TensorTypeError or TensorShapeError, in torchvision's words, for what `as_rois` does not take."""
    if isinstance(boxes, Tensor):
        if boxes.dim() != 2 or boxes.shape[1] != 5:
            raise TensorShapeError(
                f"{function}(): The boxes tensor shape is not correct as Tensor[K, 5]; it is {list(boxes.shape)}"
            )
        return
    if not isinstance(boxes, (list, tuple)) or not all(isinstance(one, Tensor) for one in boxes):
        raise TensorTypeError(
            f"{function}(): boxes is expected to be a Tensor[L, 5] or a List[Tensor[K, 4]]; it is {describe(boxes)}"
        )
    for index, one in enumerate(boxes):
        if one.dim() != 2 or one.shape[1] != 4:
            raise TensorShapeError(
                f"{function}(): The shape of the tensor in the boxes list is not correct as List[Tensor[L, 4]]; "
                f"number {index} has {list(one.shape)}"
            )


def as_rois(boxes: Boxes) -> Tensor:
    """Return boxes as float32 [K, 5], the index of the image first."""
    if isinstance(boxes, Tensor):
        return (boxes.dequantize() if boxes.is_quantized else boxes.detach()).float()
    # The index beside boxes of 16 bits would be rounded from 257 (bfloat16) or 2049 on; so they become float32 first.
    rois: list[Tensor] = []
    for index, one in enumerate(boxes):
        rois.append(torch.cat([torch.full_like(one[:, :1], index, dtype=torch.float32), one.detach().float()], 1))
    return torch.cat(rois) if rois else torch.empty((0, 5))


def edges_and_images(boxes: Tensor, images: int, scale: float, offset: float = 0.0) -> tuple[Tensor, Tensor, Tensor]:
    """Return the edges of boxes [K, 5] in pixels of the features, [K, 4]; their images, [K]; and which are valid, [K].

    A box with a NaN, an edge too far off or an index without an image is invalid; its edges and image are zeros.
    """
    edges = boxes[:, 1:] * scale - offset
    index = boxes[:, 0].trunc()
    good = (edges.abs() <= _FARTHEST).all(1) & (index >= 0) & (index < images)
    return torch.where(good[:, None], edges, 0.0), torch.where(good, index, 0.0).to(torch.int64), good


def example_boxes() -> Tensor:
    """Return boxes that lie in two images of 12 x 17 pixels and across their edges, and some invalid ones: [9, 5]."""
    random = torch.Generator().manual_seed(0)
    corner = 30 * torch.rand(9, 2, generator=random) - 4
    index = torch.tensor([0, 1, 1, 0, 0, 1, 1, 2, -1])[:, None]
    boxes = torch.cat([index, corner, corner + 16 * torch.rand(9, 2, generator=random)], 1)
    boxes[3, 2] = math.nan
    boxes[4, 3:] = boxes[4, 1:3] - 1
    return boxes
