"""Collects the names of `detectron2.layers` that the library has operators for, with detectron2's arguments.

`from detectron2.layers import ROIAlign, batched_nms` becomes `from opsmith.ops.detectron2 import ROIAlign, batched_nms`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from opsmith.ops._arguments import UnsupportedValueError
from opsmith.ops.deform_conv2d.functions import Size
from opsmith.ops.deform_conv2d.mmcv import deform_conv2d as _deform_conv2d
from opsmith.ops.deform_conv2d.mmcv import modulated_deform_conv2d as modulated_deform_conv
from opsmith.ops.deform_conv2d.module import Convolution
from opsmith.ops.nms import batched_nms, nms
from opsmith.ops.paste_masks import paste_binary_masks_in_image
from opsmith.ops.paste_masks import paste_masks_in_image as paste_masks
from opsmith.ops.roi_align import roi_align

__all__ = [
    "DeformConv",
    "ModulatedDeformConv",
    "ROIAlign",
    "batched_nms",
    "deform_conv",
    "modulated_deform_conv",
    "nms",
    "paste_masks_in_image",
    "roi_align",
]

Activation = Callable[[Tensor], Tensor]


def deform_conv(
    input: Tensor,  # noqa: A002 -- detectron2's name
    offset: Tensor,
    weight: Tensor,
    stride: Size = 1,
    padding: Size = 0,
    dilation: Size = 1,
    groups: int = 1,
    deformable_groups: int = 1,
    im2col_step: int = 64,
) -> Tensor:
    """`opsmith.ops.mmcv.deform_conv2d`, whose arguments have other names and places; `im2col_step` has no effect."""
    return _deform_conv2d(input, offset, weight, stride, padding, dilation, groups, deformable_groups)


def paste_masks_in_image(masks: Tensor, boxes: Any, image_shape: tuple[int, int], threshold: float = 0.5) -> Tensor:
    """Return where masks [N, h, w], resized to their boxes, are at least `threshold`: bool [N, height, width].

    `boxes` are [N, 4] or detectron2's `Boxes`. A mask's pixels fill its box, which stays as it is (`aligned`). With a
    negative threshold the result is uint8, from 0 to 255, for pictures.
    """
    places = boxes if isinstance(boxes, Tensor) else boxes.tensor
    if threshold >= 0:
        return paste_binary_masks_in_image(masks[:, None], places, image_shape, threshold, aligned=True)[:, 0]
    return paste_masks(masks[:, None], places, image_shape, aligned=True)[:, 0].mul(255).to(torch.uint8)


class ROIAlign(nn.Module):
    """`roi_align` as a module, called with features [N, C, H, W] and boxes [K, 5]; `aligned` moves them by half a pixel."""

    def __init__(self, output_size: Size, spatial_scale: float, sampling_ratio: int, aligned: bool = True) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale
        self.sampling_ratio, self.aligned = sampling_ratio, aligned

    def forward(self, input: Tensor, rois: Tensor) -> Tensor:  # noqa: A002 -- as detectron2 calls it
        """Return the features of each box: [K, C, output height, output width]."""
        size = self.output_size if isinstance(self.output_size, int) else list(self.output_size)
        return roi_align(input, rois, size, self.spatial_scale, self.sampling_ratio, self.aligned)

    def extra_repr(self) -> str:
        """What print(module) shows in the parentheses."""
        return (
            f"output_size={self.output_size}, spatial_scale={self.spatial_scale}, "
            f"sampling_ratio={self.sampling_ratio}, aligned={self.aligned}"
        )


class _Layer(Convolution):
    """A convolution with a normalisation and an activation behind it, where there are such."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        deformable_groups: int = 1,
        bias: bool = True,
        norm: nn.Module | None = None,
        activation: Activation | None = None,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
        self.deformable_groups, self.norm, self.activation = deformable_groups, norm, activation
        nn.init.kaiming_uniform_(self.weight, nonlinearity="relu")
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def _finish(self, x: Tensor) -> Tensor:
        if self.norm is not None:
            x = self.norm(x)
        return x if self.activation is None else self.activation(x)


class DeformConv(_Layer):
    """Deformable convolution, version 1, with its own weight; arguments as `detectron2.layers.DeformConv`'s."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        deformable_groups: int = 1,
        bias: bool = False,
        norm: nn.Module | None = None,
        activation: Activation | None = None,
    ) -> None:
        if bias:
            raise UnsupportedValueError("DeformConv(): it has no bias; found bias=True")
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            deformable_groups,
            bias,
            norm,
            activation,
        )

    def forward(self, x: Tensor, offset: Tensor) -> Tensor:
        """Return the layer's output, [N, out channels, OH, OW]."""
        numbers = (self.stride, self.padding, self.dilation, self.groups, self.deformable_groups)
        return self._finish(deform_conv(x, offset, self.weight, *numbers))


class ModulatedDeformConv(_Layer):
    """Deformable convolution, version 2, with weight and bias; arguments as `detectron2.layers.ModulatedDeformConv`'s."""

    def forward(self, x: Tensor, offset: Tensor, mask: Tensor) -> Tensor:
        """Return the layer's output, [N, out channels, OH, OW]."""
        numbers = (self.stride, self.padding, self.dilation, self.groups, self.deformable_groups)
        return self._finish(modulated_deform_conv(x, offset, mask, self.weight, self.bias, *numbers))
