"""Calls of upfirdn2d_sized for `opsmith bench`: StyleGAN's, in sizes for a CPU and for a GPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from opsmith.ops.upfirdn2d import setup_filter

__all__ = ["large", "small"]

Call = dict[str, Any]


def small() -> dict[str, Call]:
    """Of 4x64x64x64: up 2 and down 2 by 4x4 taps, up 2 and down 2 by 12 separable ones."""
    shape = (4, 64, 64, 64)
    return dict(_named(shape, f, *rates) for f in _filters() for rates in ((2, 1), (1, 2)))


def large() -> dict[str, Call]:
    """Up 2 by 4x4 taps of 16x128x128x128; up 2 and down 2 by 12 separable taps of 8x128x256x256."""
    short, long = _filters()
    shape = (8, 128, 256, 256)
    return dict([_named((16, 128, 128, 128), short, 2, 1), _named(shape, long, 2, 1), _named(shape, long, 1, 2)])


def _filters() -> tuple[Tensor, Tensor]:
    return setup_filter([1, 3, 3, 1]), setup_filter([1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1])


def _named(shape: tuple[int, int, int, int], f: Tensor, up: int, down: int) -> tuple[str, Call]:
    taps = "4x4 taps" if f.ndim == 2 else f"{f.numel()} separable taps"
    change = f"up {up}" if up > 1 else f"down {down}"
    return f"{change}, {taps}, {' x '.join(map(str, shape))}", _call(shape, f, up, down)


def _call(shape: tuple[int, int, int, int], f: Tensor, up: int, down: int) -> Call:
    """The arguments of upsample2d or downsample2d, without a gain."""
    taps = f.shape[-1]
    pad = (taps + up - 1) // 2 if up > 1 else (taps - down + 1) // 2
    height, width = shape[2:]
    return {
        "x": torch.randn(shape, generator=torch.Generator().manual_seed(0)),
        "f": f.expand(2, -1).contiguous() if f.ndim == 1 else f,
        "height": height,
        "width": width,
        "out_height": height * up // down,
        "out_width": width * up // down,
        "up_y": up,
        "up_x": up,
        "down_y": down,
        "down_x": down,
        "pad_y": pad,
        "pad_x": pad,
        "separable": f.ndim == 1,
        "flip": False,
        "gain": 1.0,
    }
