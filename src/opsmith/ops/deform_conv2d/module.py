"""Defines the convolution as a module: torchvision's DeformConv2d, and what it shares with mmcv's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from opsmith.ops._arguments import check_choice
from opsmith.ops.deform_conv2d.functions import Size, deform_conv2d, pair

__all__ = ["Convolution", "DeformConv2d"]


class Convolution(nn.Module):
    """The parameters and numbers of a convolution; parameters are initialised by the subclass."""

    if TYPE_CHECKING:  # TorchScript would ask what it means, and knows without
        bias: nn.Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size,
        padding: Size,
        dilation: Size,
        groups: int,
        bias: bool,
    ) -> None:
        super().__init__()
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = pair("kernel_size", kernel_size), pair("stride", stride)
        self.padding, self.dilation = pair("padding", padding), pair("dilation", dilation)
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels // groups, *self.kernel_size))
        self.register_parameter("bias", nn.Parameter(torch.empty(out_channels)) if bias else None)

    def extra_repr(self) -> str:
        """What print(module) shows in the parentheses: what is not the default."""
        words = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        if self.padding != (0, 0):
            words.append(f"padding={self.padding}")
        if self.dilation != (1, 1):
            words.append(f"dilation={self.dilation}")
        if self.groups != 1:
            words.append(f"groups={self.groups}")
        if self.bias is None:
            words.append("bias=False")
        return ", ".join(words)


class DeformConv2d(Convolution):
    """`deform_conv2d` with its own weight and bias; arguments as `torchvision.ops.DeformConv2d`'s, and `autocast`."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        autocast: str = "float32",
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
        check_choice("DeformConv2d", "autocast", autocast, ("float32", "low"))
        self.autocast = autocast
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters, like those of `torch.nn.Conv2d`."""
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.weight[0].numel())
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:  # noqa: A002
        """Return the convolution, [N, out channels, OH, OW]."""
        return deform_conv2d(
            input, offset, self.weight, self.bias, self.stride, self.padding, self.dilation, mask, self.autocast
        )
