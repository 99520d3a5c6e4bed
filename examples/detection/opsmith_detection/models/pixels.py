"""Some pixels of a pyramid's levels, and what is around them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from opsmith.ops import roi_align_pyramid

__all__ = ["Pixels", "around", "pixels_of"]

_STRIDE = 4  # of the first level; each of the next ones has twice that of the one before


class Pixels(NamedTuple):
    """Pixels of each image, and the sizes and strides of the levels that they are in: int64 [B, K] each."""

    x: Tensor
    y: Tensor
    width: Tensor
    height: Tensor
    stride: Tensor


def pixels_of(levels: Sequence[Tensor], chosen: Tensor, count: int) -> tuple[Pixels, Tensor]:
    """Return where things are that each pixel has `count` of, by their numbers among those of all levels, [B, K].

    The second result says which of its pixel's each is, [B, K].
    """
    first, width, height, stride = (torch.zeros_like(chosen) for _ in range(4))
    begin = 0
    for number, level in enumerate(levels):
        is_there = chosen >= begin  # or in one of the next levels
        own = (begin, level.shape[3], level.shape[2], _STRIDE << number)
        first, width, height, stride = (
            torch.where(is_there, mine, before)
            for mine, before in zip(own, (first, width, height, stride), strict=True)
        )
        begin += level.shape[2] * level.shape[3] * count
    pixel, which = (chosen - first).div(count, rounding_mode="floor"), (chosen - first) % count
    return Pixels(pixel % width, pixel.div(width, rounding_mode="floor"), width, height, stride), which


def around(levels: Sequence[Tensor], pixels: Pixels, reach: int) -> tuple[Tensor, Tensor]:
    """Return pixels with those around them, [B K, C, side, side] with a side of 2 reach + 1, and which there are.

    The others, bool [B K, 1, side, side], lie outside of their level, and have the features of ones that do not. A box of
    as many bins as pixels has its samples in the middle of these, where interpolation leaves them as they are.
    """
    side = 2 * reach + 1
    images = torch.arange(len(pixels.x), device=pixels.x.device)[:, None].expand_as(pixels.x)
    corners = (pixels.x - reach, pixels.y - reach, pixels.x + reach + 1, pixels.y + reach + 1)
    boxes = torch.stack([images, *(corner * pixels.stride for corner in corners)], -1).float().flatten(0, 1)
    features = roi_align_pyramid(
        levels,
        boxes,
        side,
        [1 / (_STRIDE << number) for number in range(len(levels))],
        sampling_ratio=1,
        aligned=True,
        # The boxes of a level have `side` times its stride, and are to be well within those that the level gets.
        canonical_scale=0.75 * side * _STRIDE,
        canonical_level=math.log2(_STRIDE),
    )
    near = torch.arange(-reach, reach + 1, device=pixels.x.device)
    is_row, is_column = (
        (at[..., None] + near >= 0) & (at[..., None] + near < size[..., None])
        for at, size in ((pixels.y, pixels.height), (pixels.x, pixels.width))
    )
    return features, (is_row[..., :, None] & is_column[..., None, :]).flatten(0, 1)[:, None]
