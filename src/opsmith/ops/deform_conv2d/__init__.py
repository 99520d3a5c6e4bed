"""Deformable convolution, v1 and modulated v2, by names and arguments of `torchvision.ops`; mmcv.py has those of mmcv."""

from __future__ import annotations

from opsmith.ops.deform_conv2d.functions import deform_conv2d
from opsmith.ops.deform_conv2d.module import DeformConv2d
from opsmith.ops.deform_conv2d.sized import deform_conv2d_sized, deform_conv2d_sized_backward

__all__ = [
    "DeformConv2d",
    "deform_conv2d",
    "deform_conv2d_sized",
    "deform_conv2d_sized_backward",
]
