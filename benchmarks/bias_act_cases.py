"""The calls of bias_act's operator that are timed: leaky ReLU behind a convolution, in sizes for a CPU and for a GPU."""

from __future__ import annotations

import math
from typing import Any

import torch

__all__ = ["large", "small"]

Call = dict[str, Any]


def small() -> dict[str, Call]:
    """8x64x128x128, and the same in channels_last order, as `bias_act` hands it on."""
    return _calls(8, 64, 128)


def large() -> dict[str, Call]:
    """16x128x256x256, and the same in channels_last order."""
    return _calls(16, 128, 256)


def _calls(batch: int, channels: int, size: int) -> dict[str, Call]:
    name = f"{batch}x{channels}x{size}x{size}"
    return {
        name: _call((batch, channels, size, size)),
        f"{name}, channels_last": _call((batch * size * size, channels)),
    }


def _call(shape: tuple[int, ...]) -> Call:
    random = torch.Generator().manual_seed(0)
    x, b = torch.randn(shape, generator=random), torch.randn(shape[1], generator=random)
    return {"x": x, "b": b, "act": "lrelu", "alpha": 0.2, "gain": math.sqrt(2), "clamp": None}
