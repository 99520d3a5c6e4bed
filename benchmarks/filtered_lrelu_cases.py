"""Calls of filtered_lrelu's operators for `opsmith bench`: StyleGAN3's layers, in sizes for a CPU and for a GPU."""

from __future__ import annotations

import math
from dataclasses import asdict, fields
from typing import Any

import torch

from opsmith.ops.filtered_lrelu.oversampling import Oversampling
from opsmith.ops.filtered_lrelu.signed import sign_sizes
from opsmith.ops.upfirdn2d import setup_filter

__all__ = ["large", "signed", "small"]

Call = dict[str, Any]

# The factors in front of the nonlinearity and behind it.
_RATES = {"up 2, down 2": (2, 2), "up 4, down 2": (4, 2), "up 2, down 4": (2, 4)}


def small() -> dict[str, Call]:
    """Of 4x32x64x64: a layer that keeps its size, and one that doubles it."""
    return {name: _call((4, 32, 64, 64), *rates) for name, rates in _RATES.items() if rates[1] == 2}


def large() -> dict[str, Call]:
    """Of 4x256x128x128: the same, and one that halves its size."""
    return {name: _call((4, 256, 128, 128), *rates) for name, rates in _RATES.items()}


def signed() -> dict[str, Call]:
    """Of the same size as `large`, for the operator that keeps signs."""
    calls = {}
    for name, call in large().items():
        oversampling = Oversampling(**{one.name: call[one.name] for one in fields(Oversampling)})
        calls[name] = call | asdict(sign_sizes(*call["x"].shape[2:], call["fd"], oversampling))
    return calls


def _call(shape: tuple[int, int, int, int], up: int, down: int) -> Call:
    """6 taps for each sample, as StyleGAN3's configurations have them, a bias, and its clamp."""
    height, width = (size * up // down for size in shape[2:])
    fu, fd = ([math.sin(math.pi * (k + 0.5) / (6 * factor)) for k in range(6 * factor)] for factor in (up, down))
    # What the size takes, half of it in front.
    pad = ((width - 1) * down + 6 * down + 6 * up - 1 - shape[3] * up) // 2
    random = torch.Generator().manual_seed(0)
    return {
        "x": torch.randn(shape, generator=random),
        "fu": setup_filter(fu).expand(2, -1).contiguous(),
        "fd": setup_filter(fd).expand(2, -1).contiguous(),
        "b": torch.randn(shape[1], generator=random),
        "out_height": height,
        "out_width": width,
        "up": up,
        "down": down,
        "pad_y": pad,
        "pad_x": pad,
        "separable_up": True,
        "separable_down": True,
        "flip": False,
        "gain": math.sqrt(2),
        "slope": 0.2,
        "clamp": 256.0,
    }
