"""The convolution as modules: torchvision's DeformConv2d and mmcv's ModulatedDeformConv2d."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from opsmith.ops.deform_conv2d.functions import Size, deform_conv2d, modulated_deform_conv2d, pair

__all__ = ["DeformConv2d", "ModulatedDeformConv2d"]


class _Convolution(nn.Module):
    """The parameters and numbers of a convolution; parameters are initialised by the subclass."""

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
        self.kernel_size, self.stride, self.padding, self.dilation = map(pair, (kernel_size, stride, padding, dilation))
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


class DeformConv2d(_Convolution):
    """`deform_conv2d` with a weight and a bias of its own; arguments as `torchvision.ops.DeformConv2d`'s."""

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
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew, as those of `torch.nn.Conv2d` are."""
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.weight[0].numel())
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:  # noqa: A002
        """Return the convolution, [N, out channels, OH, OW]."""
        return deform_conv2d(input, offset, self.weight, self.bias, self.stride, self.padding, self.dilation, mask)


class ModulatedDeformConv2d(_Convolution):
    """`modulated_deform_conv2d` with a weight and a bias of its own; arguments as `mmcv.ops.ModulatedDeformConv2d`'s."""

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
