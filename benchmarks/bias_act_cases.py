"""The calls of bias_act's operator that are timed: leaky ReLU behind a convolution, in sizes for a CPU and for a GPU."""

from __future__ import annotations

import math
from typing import Any

import torch

__all__ = ["large", "small"]

Call = dict[str, Any]


def small() -> list[Call]:
    """8x64x128x128, and the same in channels_last order, as `bias_act` hands it on."""
    return [_call((8, 64, 128, 128)), _call((8 * 128 * 128, 64))]


def large() -> list[Call]:
    """16x128x256x256, and the same in channels_last order."""
    return [_call((16, 128, 256, 256)), _call((16 * 256 * 256, 128))]


def _call(shape: tuple[int, ...]) -> Call:
    random = torch.Generator().manual_seed(0)
    x, b = torch.randn(shape, generator=random), torch.randn(shape[1], generator=random)
    return {"x": x, "b": b, "act": "lrelu", "alpha": 0.2, "gain": math.sqrt(2), "clamp": None}
