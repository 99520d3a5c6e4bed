"""Defines the module that owns its bias."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from opsmith.ops.bias_act.functions import fused_bias_leakyrelu

__all__ = ["FusedBiasLeakyReLU"]


class FusedBiasLeakyReLU(nn.Module):
    """A bias of each channel, leaky ReLU and a factor; as `mmcv.ops.FusedBiasLeakyReLU`, whose checkpoints fit."""

    def __init__(self, num_channels: int, negative_slope: float = 0.2, scale: float = math.sqrt(2)) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(num_channels))
        self.negative_slope, self.scale = negative_slope, scale

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 -- mmcv's name
        """Return scale * leaky_relu(input + bias); input is [N, num_channels, ...]."""
        return fused_bias_leakyrelu(input, self.bias, self.negative_slope, self.scale)

    def extra_repr(self) -> str:
        """What print(module) shows in the parentheses."""
        return f"{len(self.bias)}, negative_slope={self.negative_slope}, scale={self.scale:.6g}"
