"""Defines roi_align and RoIAlign, as torchvision's users call them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import opsmith
from opsmith.ops._arguments import TensorShapeError, check_tensors
from opsmith.ops._boxes.boxes import Boxes, BroadcastingList2, as_rois, check_boxes, pair
from opsmith.ops.roi_align.sized import roi_align_sized

__all__ = ["RoIAlign", "roi_align"]


# torch.fx, which traces what a module calls, cannot know what kind of boxes there will be, so a call is one node.
@torch.fx.wrap
@opsmith.scriptable
def roi_align(
    input: Tensor,  # noqa: A002 -- as torchvision calls it
    boxes: Boxes,
    output_size: BroadcastingList2[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    """Return the features of each box as a grid of `output_size`: [K, C, output height, output width].

    RoIAlign of He et al., "Mask R-CNN" (https://arxiv.org/abs/1703.06870), called as `torchvision.ops.roi_align` is. A box
    is divided into bins, in each bin lies a grid of sampling points, and the result is the mean of the features there,
    interpolated bilinearly.

    Parameters
    ----------
    input
        The features [N, C, H, W]; float16, bfloat16, float32 or float64, in any layout. The result has their type and
        memory format. Sums are made in float32, for float64 in float64.
    boxes
        [K, 5] as (index of the image, x1, y1, x2, y2), or a list with the boxes [L, 4] of each image. They are taken as
        float32 whatever the features are, and so is where the sampling points lie: features of any type are sampled at
        the same points. Boxes have no gradient.
    output_size
        How many bins a box has: an int, or (height, width).
    spatial_scale
        What the boxes' coordinates are multiplied with to be those of the features.
    sampling_ratio
        How many sampling points a bin has along each axis, up to 1024. 0 and less: as many as the bin has pixels,
        rounded up.
    aligned
        True moves boxes by half a pixel, so that a pixel's value lies in its middle, and keeps the size of small ones.
        False makes boxes at least one pixel wide and high.

    A box with a NaN, with a coordinate that is infinite or more than 2^20 pixels (of the features) off, or of an image
    that there is not, gives zeros. The image's index is rounded towards zero.

    Raises a ShapeError that is an AssertionError for shapes of boxes that do not fit, in torchvision's words;
    ArgumentTypeError for arguments of another type; ShapeError, DtypeError and DeviceError for tensors that do not fit
    together; and what the operator raises for sizes and ratios that mean nothing.
    """
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        check_tensors("roi_align", input=input)
        check_boxes("roi_align", boxes)
    height, width = pair("roi_align", output_size)
    rois = as_rois(boxes)
    features = input
    if input.is_quantized:
        if len(input) != 1:
            raise TensorShapeError(
                "roi_align(): Only one image per batch is allowed in roi_align when quantized tensors are passed."
            )
        features = input.dequantize()
    # Of another number of dimensions, the operator says what is wrong.
    images, rows, columns = (
        (features.shape[0], features.shape[2], features.shape[3]) if features.dim() == 4 else (0, 0, 0)
    )
    result: Tensor = roi_align_sized(
        features, rois, images, rows, columns, height, width, spatial_scale, sampling_ratio, aligned
    )
    if input.is_quantized:
        return torch.quantize_per_tensor(result, input.q_scale(), input.q_zero_point(), input.dtype)
    return result


class RoIAlign(nn.Module):
    """`roi_align` as a module, called with features and boxes."""

    def __init__(
        self, output_size: BroadcastingList2[int], spatial_scale: float, sampling_ratio: int, aligned: bool = False
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.spatial_scale, self.sampling_ratio, self.aligned = spatial_scale, sampling_ratio, aligned

    def forward(self, input: Tensor, rois: Boxes) -> Tensor:  # noqa: A002
        """Return the features of each box: [K, C, output height, output width]."""
        return roi_align(input, rois, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned)

    def extra_repr(self) -> str:
        """What print(module) shows in the parentheses."""
        return (
            f"output_size={self.output_size}, spatial_scale={self.spatial_scale}, "
            f"sampling_ratio={self.sampling_ratio}, aligned={self.aligned}"
        )
