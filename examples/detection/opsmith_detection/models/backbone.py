"""Features of images: ResNet (He et al., https://arxiv.org/abs/1512.03385) and feature pyramid (Lin et al.,
https://arxiv.org/abs/1612.03144).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from opsmith_detection.config import BackboneConfig
from opsmith_detection.models.fused import add_bias, add_enlarged
from opsmith_detection.models.layers import ConvNorm, Norm, computed_again

__all__ = ["Normalise", "Pyramid", "ResNet"]

_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}


class Normalise(nn.Module):
    """Subtracts the mean of pixels and divides by their deviation, both given for values from 0 to 1; padding becomes 0."""

    scale: Tensor
    shift: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        deviation = torch.tensor(std)
        self.register_buffer("scale", (1 / (255 * deviation))[:, None, None], persistent=False)
        self.register_buffer("shift", (-torch.tensor(mean) / deviation)[:, None, None], persistent=False)

    def forward(self, images: Tensor, sizes: Tensor) -> Tensor:
        """Return images, uint8 [B, 3, H, W], as float32 in channels_last; beyond heights and widths [B, 2] they are 0."""
        height, width = images.shape[2:]
        is_row, is_column = (
            torch.arange(side, device=images.device) < sizes[:, dim, None] for dim, side in enumerate((height, width))
        )
        is_inside = is_row[:, None, :, None] & is_column[:, None, None, :]
        values = images.contiguous(memory_format=torch.channels_last) * self.scale + self.shift
        return torch.where(is_inside, values, 0.0)


class Block(nn.Module):
    """Two 3x3 convolutions or, from 50 layers on, one between two of 1x1, and what goes around them. Strides are in 3x3."""

    def __init__(self, inputs: int, stage: int, stride: int, config: BackboneConfig, *, recompute: bool) -> None:
        super().__init__()
        width, is_deep = config.width * 2 ** (stage - 2), config.depth >= 50
        conv1x1 = partial(ConvNorm, kernel=1, norm=config.norm)
        conv3x3 = partial(ConvNorm, kernel=3, norm=config.norm, deformable=stage in config.deformable_stages)
        self.recompute = recompute
        self.channels = width * 4 if is_deep else width
        if is_deep:
            self.conv1 = conv1x1(inputs, width)
            self.conv2 = conv3x3(width, width, stride=stride)
        else:
            self.conv1 = conv3x3(inputs, width, stride=stride)
            self.conv2 = conv3x3(width, width)
        self.conv3 = conv1x1(width, self.channels) if is_deep else None
        self.downsample: ConvNorm | None = None
        if stride != 1 or inputs != self.channels:
            self.downsample = conv1x1(inputs, self.channels, stride=stride, relu=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return [N, channels, H / stride, W / stride]."""
        return computed_again(self._forward, x, enabled=self.recompute and self.training)

    def _forward(self, x: Tensor) -> Tensor:
        around, shift = (x, None) if self.downsample is None else self.downsample.without_bias(x)
        x = self.conv1(x)
        last = self.conv2 if self.conv3 is None else self.conv3
        out: Tensor = last(x if self.conv3 is None else self.conv2(x), around, shift)
        return out


class ResNet(nn.Module):
    """A ResNet without its classifier, which returns what stages 2 to 5 make, at a 4th to a 32nd of the resolution.

    `channels` are their numbers of channels. The stages that are not trained have no gradient. With `recompute` a block
    keeps its input alone.
    """

    def __init__(self, config: BackboneConfig, *, recompute: bool = False) -> None:
        super().__init__()
        inputs = config.width
        self.conv1 = ConvNorm(3, inputs, 7, stride=2, norm=config.norm)
        self.stages: list[str] = []
        self.channels: list[int] = []
        for stage, count in enumerate(_BLOCKS[config.depth], start=2):
            blocks = []
            for number in range(count):
                stride = 2 if stage > 2 and number == 0 else 1
                blocks.append(Block(inputs, stage, stride, config, recompute=recompute))
                inputs = blocks[-1].channels
            self.add_module(f"layer{stage - 1}", nn.Sequential(*blocks))
            self.stages.append(f"layer{stage - 1}")
            self.channels.append(inputs)
        for name in ("conv1", *self.stages)[: 5 - config.trainable_stages]:
            self.get_submodule(name).requires_grad_(False)

    def forward(self, x: Tensor) -> list[Tensor]:
        """Return four feature maps of images [N, 3, H, W]."""
        x = functional.max_pool2d(self.conv1(x), 3, stride=2, padding=1)
        features = []
        for stage in self.stages:
            x = self.get_submodule(stage)(x)
            features.append(x)
        return features


class Pyramid(nn.Module):
    """Features of all levels with the same number of channels, each with what the coarser ones know.

    Args:
        inputs: the channels of the backbone's feature maps.
        extra: which levels come on top: "pool" for every second pixel of the last one; "p5" and "c5" for two
            convolutions with strides, from the pyramid's last level or from the backbone's.
    """

    def __init__(
        self, inputs: Sequence[int], channels: int, *, norm: Norm | None, extra: Literal["pool", "p5", "c5"]
    ) -> None:
        super().__init__()
        self.extra = extra
        self.inner = nn.ModuleList(ConvNorm(count, channels, 1, norm=norm, relu=False) for count in inputs)
        self.outer = nn.ModuleList(ConvNorm(channels, channels, 3, norm=norm, relu=False) for _ in inputs)
        if extra != "pool":
            self.p6 = ConvNorm(channels if extra == "p5" else inputs[-1], channels, 3, stride=2, relu=False)
            self.p7 = ConvNorm(channels, channels, 3, stride=2, relu=False)
        for module in self.modules():
            if isinstance(module, ConvNorm):
                module.initialise("uniform")

    def forward(self, features: Sequence[Tensor]) -> list[Tensor]:
        """Return the levels of feature maps, the largest first."""
        above: Tensor | None = None
        levels: list[Tensor] = []
        for feature, inner, outer in zip(reversed(features), reversed(self.inner), reversed(self.outer), strict=True):
            assert isinstance(inner, ConvNorm)
            if above is None:
                above = inner(feature)
            else:
                part, bias = inner.without_bias(feature)
                coarse = above if bias is None else add_bias(above, bias)  # of a quarter of the pixels
                above = add_enlarged(part, coarse)
            levels.insert(0, outer(above))
        if self.extra == "pool":
            return [*levels, functional.max_pool2d(levels[-1], 1, stride=2)]
        p6 = self.p6(levels[-1] if self.extra == "p5" else features[-1])
        return [*levels, p6, self.p7(p6.relu())]
