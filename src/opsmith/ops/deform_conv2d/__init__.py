"""Deformable convolution, v1 and modulated v2, by names and arguments of `torchvision.ops` and of `mmcv.ops`."""

from __future__ import annotations

from opsmith.ops.deform_conv2d.functions import deform_conv2d, modulated_deform_conv2d
from opsmith.ops.deform_conv2d.module import DeformConv2d, ModulatedDeformConv2d
from opsmith.ops.deform_conv2d.sized import deform_conv2d_sized, deform_conv2d_sized_backward

__all__ = [
    "DeformConv2d",
    "ModulatedDeformConv2d",
    "deform_conv2d",
    "deform_conv2d_sized",
    "deform_conv2d_sized_backward",
    "modulated_deform_conv2d",
]
