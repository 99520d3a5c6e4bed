"""Defines roi_pool and RoIPool, as torchvision's users call them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import opsmith
from opsmith.ops._arguments import check_tensors
from opsmith.ops._boxes.boxes import Boxes, BroadcastingList2, as_rois, check_boxes, pair
from opsmith.ops.roi_pool.sized import roi_pool_sized

__all__ = ["RoIPool", "roi_pool"]


@torch.fx.wrap
@opsmith.scriptable
def roi_pool(
    input: Tensor,  # noqa: A002 -- as torchvision calls it
    boxes: Boxes,
    output_size: BroadcastingList2[int],
    spatial_scale: float = 1.0,
) -> Tensor:
    """Return the largest feature of each bin of each box: [K, C, output height, output width].

    RoI pooling of Girshick, "Fast R-CNN" (https://arxiv.org/abs/1504.08083), called as `torchvision.ops.roi_pool` is. A
    box's edges are rounded to whole pixels (halves away from zero), both of which belong to it, and bins to the pixels
    that they touch.

    Parameters
    ----------
    input
        The features [N, C, H, W]; float16, bfloat16, float32 or float64, in any layout. The result has their type and
        memory format.
    boxes
        [K, 5] as (index of the image, x1, y1, x2, y2), or a list with the boxes [L, 4] of each image; taken as float32
        whatever the features are. Boxes have no gradient.
    output_size
        How many bins a box has: an int, or (height, width).
    spatial_scale
        What the boxes' coordinates are multiplied with to be those of the features.

    A bin without a pixel of the image gives 0. So does a box with a NaN, with a coordinate that is infinite or more than
    2^20 pixels (of the features) off, or of an image that there is not. Of equal features the first in row-major order
    has the gradient; a NaN counts as larger than all numbers.

    Raises a ShapeError that is an AssertionError for shapes of boxes that do not fit, in torchvision's words;
    ArgumentTypeError for arguments of another type; ShapeError, DtypeError and DeviceError for tensors that do not fit
    together.
    """
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        check_tensors("roi_pool", input=input)
        check_boxes("roi_pool", boxes)
    height, width = pair("roi_pool", output_size)
    rois = as_rois(boxes)
    # Of another number of dimensions, the operator says what is wrong.
    images, rows, columns = (input.shape[0], input.shape[2], input.shape[3]) if input.dim() == 4 else (0, 0, 0)
    if torch.jit.is_scripting():  # type: ignore[attr-defined]
        # The operator in torch.ops, which returns what it saves, too.
        scripted: Tensor = roi_pool_sized(input, rois, images, rows, columns, height, width, spatial_scale)[0]
        return scripted
    result: Tensor = roi_pool_sized(input, rois, images, rows, columns, height, width, spatial_scale)
    return result


class RoIPool(nn.Module):
    """`roi_pool` as a module, called with features and boxes."""

    def __init__(self, output_size: BroadcastingList2[int], spatial_scale: float) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale

    def forward(self, input: Tensor, rois: Boxes) -> Tensor:  # noqa: A002
        """Return the largest feature of each bin of each box: [K, C, output height, output width]."""
        return roi_pool(input, rois, self.output_size, self.spatial_scale)

    def extra_repr(self) -> str:
        """What print(module) shows in the parentheses."""
        return f"output_size={self.output_size}, spatial_scale={self.spatial_scale}"
