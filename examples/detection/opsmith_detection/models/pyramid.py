"""Feature pyramid (Lin et al., "Feature Pyramid Networks", https://arxiv.org/abs/1612.03144)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional

from opsmith_detection.config import BackboneConfig
from opsmith_detection.models.layers import ConvNorm, Norm

__all__ = ["Pyramid", "trained_norm"]


class Pyramid(nn.Module):
    """Features of all levels with the same number of channels, each with what the coarser ones know.

    Parameters
    ----------
    inputs
        The channels of the backbone's feature maps.
    extra
        Which levels come on top: "pool" for every second pixel of the last one; "p5" and "c5" for two convolutions with
        strides, from the pyramid's last level or from the backbone's.
    """

    def __init__(
        self, inputs: Sequence[int], channels: int, *, norm: Norm | None, extra: Literal["pool", "p5", "c5"]
    ) -> None:
        super().__init__()
        self.extra = extra
        self.inner = nn.ModuleList(ConvNorm(each, channels, 1, norm=norm, relu=False) for each in inputs)
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
            coarse = None if above is None else functional.interpolate(above, size=feature.shape[2:], mode="nearest")
            above = inner(feature, coarse)
            levels.insert(0, outer(above))
        if self.extra == "pool":
            return [*levels, functional.max_pool2d(levels[-1], 1, stride=2)]
        p6 = self.p6(levels[-1] if self.extra == "p5" else features[-1])
        return [*levels, p6, self.p7(p6.relu())]


def trained_norm(config: BackboneConfig) -> Norm:
    """Return which batch norm there is outside of the backbone, where none is frozen."""
    return "sync" if config.norm == "sync" else "batch"
