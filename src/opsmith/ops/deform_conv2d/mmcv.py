"""Deformable convolution by the names and arguments of `mmcv.ops`, whose state dicts the modules load.

Under autocast all of it runs in the low type, as mmcv's takes that of the offsets.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from opsmith.ops._arguments import TensorShapeError, UnsupportedValueError, check_ints, check_tensors
from opsmith.ops.deform_conv2d.functions import Size, check_ranks
from opsmith.ops.deform_conv2d.functions import deform_conv2d as convolve
from opsmith.ops.deform_conv2d.module import Convolution

__all__ = [
    "DeformConv2d",
    "DeformConv2dPack",
    "ModulatedDeformConv2d",
    "ModulatedDeformConv2dPack",
    "deform_conv2d",
    "modulated_deform_conv2d",
]


def deform_conv2d(
    input: Tensor,  # noqa: A002 -- as mmcv calls it
    offset: Tensor,
    weight: Tensor,
    stride: Size = 1,
    padding: Size = 0,
    dilation: Size = 1,
    groups: int = 1,
    deform_groups: int = 1,
    bias: bool = False,
    im2col_step: int = 32,
) -> Tensor:
    """Return the convolution without a mask and a bias, as `mmcv.ops.deform_conv2d`; `im2col_step` has no effect.

    The groups follow from the shapes; RuntimeError is raised where those that are given are others.
    """
    name = "deform_conv2d"
    if bias is not False:
        raise UnsupportedValueError(f"{name}(): Only support bias is False; found bias = {bias!r}")
    check_tensors(name, input=input, offset=offset, weight=weight)
    check_ranks(input, offset, weight, None)
    _check_groups(name, input, offset, weight, groups, deform_groups)
    return convolve(input, offset, weight, None, stride, padding, dilation, autocast="low")


def modulated_deform_conv2d(
    input: Tensor,  # noqa: A002 -- as mmcv calls it
    offset: Tensor,
    mask: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    dilation: Size = 1,
    groups: int = 1,
    deform_groups: int = 1,
) -> Tensor:
    """Return `deform_conv2d` of arguments in the order of `mmcv.ops.modulated_deform_conv2d`.

    The groups follow from the shapes; RuntimeError is raised where those that are given are others.
    """
    name = "modulated_deform_conv2d"
    check_tensors(name, optional=("bias",), input=input, offset=offset, mask=mask, weight=weight, bias=bias)
    check_ranks(input, offset, weight, mask)
    _check_groups(name, input, offset, weight, groups, deform_groups)
    return convolve(input, offset, weight, bias, stride, padding, dilation, mask, autocast="low")


class _Layer(Convolution):
    """A convolution whose offsets are an argument, or learned: then so many numbers for each tap."""

    _learned_by_tap = 0

    def _add_offsets(self, deform_groups: int) -> None:
        """Add a convolution of the input that gives what is learned, at the same places; its parameters begin as zero."""
        if self._learned_by_tap == 0:
            return
        taps = self.kernel_size[0] * self.kernel_size[1]
        channels = self._learned_by_tap * deform_groups * taps
        self.conv_offset = nn.Conv2d(
            self.in_channels, channels, self.kernel_size, self.stride, self.padding, self.dilation
        )
        for parameter in self.conv_offset.parameters():
            nn.init.zeros_(parameter)


class ModulatedDeformConv2d(_Layer):
    """`modulated_deform_conv2d` with its own weight and bias; arguments as `mmcv.ops.ModulatedDeformConv2d`'s."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        deform_groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
        self.deform_groups = deform_groups
        self.init_weights()
        self._add_offsets(deform_groups)

    def init_weights(self) -> None:
        """Draw the weight uniformly, up to 1 / sqrt(channels * taps) either way; the bias is 0."""
        bound = 1 / math.sqrt(self.in_channels * self.kernel_size[0] * self.kernel_size[1])
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, offset: Tensor, mask: Tensor) -> Tensor:
        """Return the convolution, [N, out channels, OH, OW]."""
        return modulated_deform_conv2d(
            x,
            offset,
            mask,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            self.deform_groups,
        )


class DeformConv2d(_Layer):
    """`deform_conv2d` with its own weight; arguments as `mmcv.ops.DeformConv2d`'s, which has no bias."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        deform_groups: int = 1,
        bias: bool = False,
        im2col_step: int = 32,
    ) -> None:
        if bias:
            raise UnsupportedValueError(f"DeformConv2d(): bias={bias} is not supported in DeformConv2d.")
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, False)
        self.deform_groups, self.im2col_step = deform_groups, im2col_step
        self.reset_parameters()
        self._add_offsets(deform_groups)

    def reset_parameters(self) -> None:
        """Draw the weight uniformly, by He et al., "Delving Deep into Rectifiers"."""
        nn.init.kaiming_uniform_(self.weight, nonlinearity="relu")

    def forward(self, x: Tensor, offset: Tensor) -> Tensor:
        """Return the convolution, [N, out channels, OH, OW]."""
        return deform_conv2d(
            x,
            offset,
            self.weight,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            self.deform_groups,
        )


class DeformConv2dPack(DeformConv2d):
    """`DeformConv2d` whose offsets are a convolution of its input, which begins as zero."""

    _learned_by_tap = 2

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """Return the convolution, [N, out channels, OH, OW]."""
        return super().forward(x, self.conv_offset(x))


class ModulatedDeformConv2dPack(ModulatedDeformConv2d):
    """`ModulatedDeformConv2d` whose offsets and mask are a convolution of its input, which begins as zero."""

    _learned_by_tap = 3

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """Return the convolution, [N, out channels, OH, OW]."""
        first, second, mask = self.conv_offset(x).chunk(3, dim=1)
        return super().forward(x, torch.cat([first, second], 1), mask.sigmoid())


def _check_groups(
    name: str,
    input: Tensor,  # noqa: A002
    offset: Tensor,
    weight: Tensor,
    groups: int,
    deform_groups: int,
) -> None:
    check_ints(name, groups=groups, deform_groups=deform_groups)
    if weight.shape[1] * groups != input.shape[1]:
        raise TensorShapeError(
            f"{name}(): input has {input.shape[1]} channels, but weight has {weight.shape[1]} for each of {groups} groups"
        )
    taps = weight.shape[2] * weight.shape[3]
    if offset.shape[1] != 2 * deform_groups * taps:
        raise TensorShapeError(
            f"{name}(): offset.shape[1] is not valid: got: {offset.shape[1]} expected: {2 * deform_groups * taps}"
        )
