"""Collects the names of `mmcv.ops` that the library has operators for, with mmcv's arguments.

`from mmcv.ops import DeformConv2dPack, batched_nms` becomes `from opsmith.ops.mmcv import DeformConv2dPack, batched_nms`.
mmcv's RoIPool does not round boxes to whole pixels, as torchvision's and this one do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from opsmith.ops.bias_act import FusedBiasLeakyReLU, fused_bias_leakyrelu
from opsmith.ops.bias_act import bias_act as _bias_act
from opsmith.ops.deform_conv2d.mmcv import (
    DeformConv2d,
    DeformConv2dPack,
    ModulatedDeformConv2d,
    ModulatedDeformConv2dPack,
    deform_conv2d,
    modulated_deform_conv2d,
)
from opsmith.ops.filtered_lrelu import filtered_lrelu as _filtered_lrelu
from opsmith.ops.ms_deform_attn import MSDeformAttnFunction as MultiScaleDeformableAttnFunction
from opsmith.ops.nms.mmcv import batched_nms, nms, soft_nms
from opsmith.ops.roi_align.mmcv import RoIAlign, roi_align
from opsmith.ops.roi_pool import RoIPool as _RoIPool
from opsmith.ops.roi_pool import roi_pool
from opsmith.ops.sigmoid_focal_loss.mmcv import SigmoidFocalLoss, sigmoid_focal_loss
from opsmith.ops.stylegan.conv2d_gradfix import conv2d, conv_transpose2d
from opsmith.ops.upfirdn2d import upfirdn2d as _upfirdn2d

__all__ = [
    "DeformConv2d",
    "DeformConv2dPack",
    "FusedBiasLeakyReLU",
    "ModulatedDeformConv2d",
    "ModulatedDeformConv2dPack",
    "MultiScaleDeformableAttnFunction",
    "RoIAlign",
    "RoIPool",
    "SigmoidFocalLoss",
    "batched_nms",
    "bias_act",
    "conv2d",
    "conv_transpose2d",
    "deform_conv2d",
    "filtered_lrelu",
    "fused_bias_leakyrelu",
    "modulated_deform_conv2d",
    "nms",
    "roi_align",
    "roi_pool",
    "sigmoid_focal_loss",
    "soft_nms",
    "upfirdn2d",
]


def bias_act(
    input: Tensor,  # noqa: A002 -- mmcv's name
    bias: Tensor | None = None,
    dim: int = 1,
    act: str = "linear",
    alpha: float | None = None,
    gain: float | None = None,
    clamp: float | None = None,
    use_custom_op: bool = True,
) -> Tensor:
    """`opsmith.ops.bias_act.bias_act`; without `use_custom_op` its definition in PyTorch."""
    return _bias_act(input, bias, dim, act, alpha, gain, clamp, impl="cuda" if use_custom_op else "ref")


def filtered_lrelu(
    input: Tensor,  # noqa: A002 -- mmcv's name
    filter_up: Tensor | None = None,
    filter_down: Tensor | None = None,
    bias: Tensor | None = None,
    up: int = 1,
    down: int = 1,
    padding: int | Sequence[int] = 0,
    gain: float = math.sqrt(2),
    slope: float = 0.2,
    clamp: float | None = None,
    flip_filter: bool = False,
    use_custom_op: bool = True,
) -> Tensor:
    """`opsmith.ops.filtered_lrelu.filtered_lrelu`; without `use_custom_op` its definition in PyTorch."""
    impl = "cuda" if use_custom_op else "ref"
    return _filtered_lrelu(
        input, filter_up, filter_down, bias, up, down, padding, gain, slope, clamp, flip_filter, impl=impl
    )


class RoIPool(_RoIPool):
    """`opsmith.ops.roi_pool.RoIPool`, by default for boxes in pixels of the features."""

    def __init__(self, output_size: int | tuple[int, int], spatial_scale: float = 1.0) -> None:
        super().__init__(output_size, spatial_scale)


def upfirdn2d(
    input: Tensor,  # noqa: A002 -- mmcv's name
    filter: Tensor | None,  # noqa: A002 -- mmcv's name
    up: int | Sequence[int] = 1,
    down: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    flip_filter: bool = False,
    gain: float = 1,
    use_custom_op: bool = True,
) -> Tensor:
    """`opsmith.ops.upfirdn2d.upfirdn2d`; without `use_custom_op` its definition in PyTorch."""
    return _upfirdn2d(input, filter, up, down, padding, flip_filter, gain, impl="cuda" if use_custom_op else "ref")
