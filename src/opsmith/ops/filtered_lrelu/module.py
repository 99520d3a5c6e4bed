"""Defines the module that owns its filters and bias."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from opsmith.ops._filters.arguments import Ints
from opsmith.ops._filters.module import FilterModule
from opsmith.ops.filtered_lrelu.functions import filtered_lrelu
from opsmith.ops.upfirdn2d import setup_filter

__all__ = ["FilteredLReLU"]


class FilteredLReLU(FilterModule):
    """`filtered_lrelu` with its own filters and bias; `fu` and `fd` are whatever `setup_filter` takes."""

    fu: Tensor
    fd: Tensor

    def __init__(
        self,
        num_channels: int,
        fu: Any = None,
        fd: Any = None,
        up: int = 1,
        down: int = 1,
        padding: Ints = 0,
        *,
        gain: float = math.sqrt(2),
        slope: float = 0.2,
        clamp: float | None = None,
    ) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(num_channels))
        self.register_buffer("fu", setup_filter(fu))
        self.register_buffer("fd", setup_filter(fd))
        self.up, self.down, self.padding = up, down, padding
        self.gain, self.slope, self.clamp = gain, slope, clamp

    def forward(self, x: Tensor) -> Tensor:
        """Return the images [N, num_channels, H, W] behind the nonlinearity."""
        bias = self.bias.to(x.dtype)
        return filtered_lrelu(
            x, self.fu, self.fd, bias, self.up, self.down, self.padding, self.gain, self.slope, self.clamp
        )

    def extra_repr(self) -> str:
        """What print(module) shows in the parentheses."""
        return f"{len(self.bias)}, up={self.up}, down={self.down}, {len(self.fu)} and {len(self.fd)} taps"
