"""Modulated deformable convolution by the names and arguments of `mmcv.ops`."""

from __future__ import annotations

import math

from torch import Tensor, nn

from opsmith.ops._arguments import TensorShapeError, check_ints, check_tensors
from opsmith.ops.deform_conv2d.functions import Size, check_ranks, deform_conv2d
from opsmith.ops.deform_conv2d.module import Convolution

__all__ = ["ModulatedDeformConv2d", "modulated_deform_conv2d"]


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
    check_ints(name, groups=groups, deform_groups=deform_groups)
    check_ranks(input, offset, weight, mask)
    if weight.shape[1] * groups != input.shape[1]:
        raise TensorShapeError(
            f"{name}(): input has {input.shape[1]} channels, but weight has {weight.shape[1]} for each of {groups} groups"
        )
    taps = weight.shape[2] * weight.shape[3]
    if offset.shape[1] != 2 * deform_groups * taps:
        raise TensorShapeError(
            f"{name}(): offset.shape[1] is not valid: got: {offset.shape[1]} expected: {2 * deform_groups * taps}"
        )
    return deform_conv2d(input, offset, weight, bias, stride, padding, dilation, mask)


class ModulatedDeformConv2d(Convolution):
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
