"""Calls of bias_act's operator for `opsmith bench`: leaky ReLU after a convolution, in sizes for a CPU and for a GPU."""

from __future__ import annotations

import math
from typing import Any

import torch

__all__ = ["large", "small"]

Call = dict[str, Any]


def small() -> dict[str, Call]:
    """8x64x128x128, and the same in channels_last order."""
    return _both_orders((8, 64, 128, 128))


def large() -> dict[str, Call]:
    """16x128x256x256, and the same in channels_last order."""
    return _both_orders((16, 128, 256, 256))


def _both_orders(shape: tuple[int, int, int, int]) -> dict[str, Call]:
    """A channels_last tensor comes as a matrix with a column for each channel, as `bias_act` hands it on."""
    batch, channels, height, width = shape
    name = " x ".join(map(str, shape))
    return {
        f"lrelu, {name}": _call(shape),
        f"lrelu, {name} channels_last": _call((batch * height * width, channels)),
    }


def _call(shape: tuple[int, ...]) -> Call:
    random = torch.Generator().manual_seed(0)
    x, b = torch.randn(shape, generator=random), torch.randn(shape[1], generator=random)
    return {"x": x, "b": b, "act": "lrelu", "alpha": 0.2, "gain": math.sqrt(2), "clamp": None}
