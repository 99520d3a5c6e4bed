"""ResNet (He et al., "Deep Residual Learning", https://arxiv.org/abs/1512.03385), as in torchvision: strides in 3x3."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from opsmith_detection.config import BackboneConfig
from opsmith_detection.models.layers import ConvNorm, Norm

__all__ = ["ResNet"]

_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}


class Basic(nn.Module):
    """Two 3x3 convolutions and what goes around them."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int, norm: Norm, deformable: bool) -> None:
        super().__init__()
        self.conv1 = ConvNorm(inputs, width, 3, stride=stride, norm=norm, deformable=deformable)
        self.conv2 = ConvNorm(width, width, 3, norm=norm, deformable=deformable)
        self.downsample = _downsample(inputs, width, stride, norm)

    def forward(self, x: Tensor) -> Tensor:
        """Return [N, width, H / stride, W / stride]."""
        around = x if self.downsample is None else self.downsample(x)
        out: Tensor = self.conv2(self.conv1(x), around)
        return out


class Bottleneck(nn.Module):
    """A 3x3 convolution between two of 1x1, and what goes around them."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int, norm: Norm, deformable: bool) -> None:
        super().__init__()
        self.conv1 = ConvNorm(inputs, width, 1, norm=norm)
        self.conv2 = ConvNorm(width, width, 3, stride=stride, norm=norm, deformable=deformable)
        self.conv3 = ConvNorm(width, width * self.expansion, 1, norm=norm)
        self.downsample = _downsample(inputs, width * self.expansion, stride, norm)

    def forward(self, x: Tensor) -> Tensor:
        """Return [N, 4 width, H / stride, W / stride]."""
        around = x if self.downsample is None else self.downsample(x)
        out: Tensor = self.conv3(self.conv2(self.conv1(x)), around)
        return out


class ResNet(nn.Module):
    """A ResNet without its classifier, which returns what stages 2 to 5 make, at a 4th to a 32nd of the resolution.

    `channels` are their numbers of channels. The stages that are not trained have no gradient.
    """

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        block: type[Basic | Bottleneck] = Basic if config.depth < 50 else Bottleneck
        inputs = config.width
        self.conv1 = ConvNorm(3, inputs, 7, stride=2, norm=config.norm)
        self.stages: list[str] = []
        self.channels: list[int] = []
        for stage, count in enumerate(_BLOCKS[config.depth], start=2):
            width, blocks = config.width * 2 ** (stage - 2), []
            for number in range(count):
                stride = 2 if stage > 2 and number == 0 else 1
                blocks.append(block(inputs, width, stride, config.norm, stage in config.deformable_stages))
                inputs = width * block.expansion
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


def _downsample(inputs: int, outputs: int, stride: int, norm: Norm) -> ConvNorm | None:
    if stride == 1 and inputs == outputs:
        return None
    return ConvNorm(inputs, outputs, 1, stride=stride, norm=norm, relu=False)
