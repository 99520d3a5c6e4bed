"""Defines the operator behind `ms_deform_attn`, for any shapes of levels, and its gradient."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import opsmith

__all__ = ["Needed", "ms_deform_attn_sampled", "ms_deform_attn_sampled_backward"]


@dataclass(frozen=True)
class Needed:
    """Which gradients are needed; the others have no elements."""

    needs_grad_value: bool
    needs_grad_sampling_locations: bool
    needs_grad_attention_weights: bool


@opsmith.op(cpu="ms_deform_attn.cpp", cuda="ms_deform_attn.cu", outputs="out", batch="N")
def ms_deform_attn_sampled(
    value: Float[Tensor, "N S M D"],
    spatial_shapes: Int64[Tensor, "L 2"],
    level_start_index: Int64[Tensor, "L"],
    sampling_locations: Float[Tensor, "N Q M L P 2"],
    attention_weights: Float[Tensor, "N Q M L P"],
) -> Float[Tensor, "N Q M*D"]:
    """Sum samples of a pyramid's levels, weighted by attention. Call it through `ms_deform_attn`.

    Level l has the pixels [start_l, start_l + h_l w_l) of `value`, row by row. A location (x, y), from 0 to 1 within its
    level, is the point (x w - 1/2, y h - 1/2) between the middles of pixels; the sample is interpolated bilinearly between
    the four pixels around it. What lies outside of its level, or of `value`, is zero, and so is a sample from one pixel
    outside on, or at a NaN (Zhu et al., "Deformable DETR", https://arxiv.org/abs/2010.04159, equation 3).

    Where the shapes lie in the memory of a GPU nobody waits for them, so no size depends on them and none is checked.
    """
    wide = torch.float64 if value.dtype == torch.float64 else torch.float32
    height, width = spatial_shapes[:, 0, None], spatial_shapes[:, 1, None]
    locations = sampling_locations.to(wide)
    samples = _samples(
        value.to(wide),
        (height, width, level_start_index[:, None]),
        _points(locations[..., 0], width),
        _points(locations[..., 1], height),
    )
    weights = attention_weights.to(wide).permute(0, 2, 1, 3, 4).flatten(3)[..., None]
    return (samples * weights).sum(3).transpose(1, 2).flatten(2).to(value.dtype)


@ms_deform_attn_sampled.backward(cpu="ms_deform_attn.cpp", cuda="ms_deform_attn.cu")
def ms_deform_attn_sampled_backward(  # type: ignore[empty-body]
    grad_out: Float[Tensor, "N Q M*D"],
    value: Float[Tensor, "N S M D"],
    spatial_shapes: Int64[Tensor, "L 2"],
    level_start_index: Int64[Tensor, "L"],
    sampling_locations: Float[Tensor, "N Q M L P 2"],
    attention_weights: Float[Tensor, "N Q M L P"],
    needed: Needed,
) -> tuple[
    Float[Tensor, "N S M D"],
    Float[Tensor, "N Q M L P 2"],
    Float[Tensor, "N Q M L P"],
]:
    """The gradients, from the inputs again.

    A sample's gradient along x and y is that between the four pixels around it. On a line of pixels, where there are
    two, it is that towards the larger coordinate.
    """
    ...


@ms_deform_attn_sampled.examples
def _examples() -> list[dict[str, object]]:
    """Pyramids of several levels and of one, with points in all of them and outside, and levels that are not there."""
    random = torch.Generator().manual_seed(0)
    calls: list[dict[str, object]] = []
    for shapes, heads, channels, points, queries in (
        ([(7, 9), (4, 5), (2, 3), (1, 1)], 2, 8, 4, 33),
        ([(6, 11)], 3, 5, 3, 10),
        ([(5, 4), (0, 3), (3, 2)], 1, 32, 2, 70),
        ([(8, 8), (4, 4)], 2, 40, 5, 12),
    ):
        sizes = torch.tensor(shapes)
        areas = sizes.prod(1)
        levels = len(shapes)
        calls.append(
            {
                "value": torch.randn(2, int(areas.sum()), heads, channels, generator=random),
                "spatial_shapes": sizes,
                "level_start_index": areas.cumsum(0) - areas,
                "sampling_locations": 1.4 * torch.rand(2, queries, heads, levels, points, 2, generator=random) - 0.2,
                "attention_weights": torch.rand(2, queries, heads, levels, points, generator=random),
            }
        )
    return calls


def _points(locations: Tensor, size: Tensor) -> Tensor:
    """Return locations along an axis in pixels, counted from the middle of the first one."""
    return locations * size.to(locations.dtype) - 0.5


def _samples(value: Tensor, level: tuple[Tensor, Tensor, Tensor], x: Tensor, y: Tensor) -> Tensor:
    """Interpolate the pixels of levels [L 1] at points [N Q M L P]: [N M Q L*P D]."""
    height, width, start = level
    inside = (y > -1) & (y < height) & (x > -1) & (x < width)
    x, y = torch.where(inside, x, -2.0), torch.where(inside, y, -2.0)
    left, top = x.floor(), y.floor()
    right, below = x - left, y - top
    # One more pixel, zero, stands for all that are outside: there may be no other.
    count = value.shape[1]
    pixels = torch.nn.functional.pad(value, (0, 0, 0, 0, 0, 1)).transpose(1, 2)
    total: Tensor | None = None
    for row, share_y in ((top, 1 - below), (top + 1, below)):
        for column, share_x in ((left, 1 - right), (left + 1, right)):
            index = start + row.to(torch.int64) * width + column.to(torch.int64)
            is_there = (row >= 0) & (row < height) & (column >= 0) & (column < width) & (index >= 0) & (index < count)
            index = torch.where(is_there, index, count).permute(0, 2, 1, 3, 4).flatten(3)
            shares = (share_y * share_x).permute(0, 2, 1, 3, 4).flatten(3)[..., None]
            corner = pixels.gather(2, index.flatten(2)[..., None].expand(-1, -1, -1, value.shape[3]))
            part = corner.unflatten(2, index.shape[2:]) * shares
            total = part if total is None else total + part
    assert total is not None
    return total
