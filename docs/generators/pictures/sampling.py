"""The pictures of deform_conv2d and ms_deform_attn."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from generators.pictures.drawing import Drawing, Point
from opsmith.ops.deform_conv2d.sized import Geometry, deform_conv2d_sized
from opsmith.ops.ms_deform_attn.sampled import ms_deform_attn_sampled

__all__ = ["draw_deform_conv2d", "draw_ms_deform_attn"]

_SIDE = 9  # pixels of an image


def _arc(side: int) -> Tensor:
    """Return an image [side, side] of a ring, whatever its resolution."""
    place = (torch.arange(side, dtype=torch.float64) + 0.5) / side
    radius = torch.hypot(place[None, :] - 0.95, place[:, None] - 0.95)
    return torch.exp(-(((radius - 0.62) / 0.11) ** 2))


def _along_arc() -> Tensor:
    """Return offsets [3, 3, 2] (y, x) that lay the taps around the image's middle onto the ring."""
    middle, offsets = (_SIDE - 1) / 2, torch.zeros(3, 3, 2, dtype=torch.float64)
    for row in range(3):
        for column in range(3):
            angle = math.pi * (1.25 + 0.07 * (column - row + 0.5 * (row + column - 2)))
            radius = (0.62 + 0.02 * (row + column - 2)) * _SIDE
            y, x = 0.95 * _SIDE - 0.5 + radius * math.sin(angle), 0.95 * _SIDE - 0.5 + radius * math.cos(angle)
            offsets[row, column, 0] = y - (middle + row - 1)
            offsets[row, column, 1] = x - (middle + column - 1)
    return offsets


def draw_deform_conv2d() -> Drawing:
    """The nine taps of a filter, on the grid and moved by their offsets."""
    image, size = _arc(_SIDE), 28.0
    weight = torch.full((1, 1, 3, 3), 1 / 9, dtype=torch.float64)
    middle = (_SIDE - 1) // 2
    drawing = Drawing(
        "Nine taps on the grid, and the same nine moved along a ring by their offsets, where they meet more of it",
        340,
        (290, 34, 252, 252),
    )
    for left, offsets, name in (
        (10, torch.zeros(3, 3, 2, dtype=torch.float64), "convolution"),
        (290, _along_arc(), "deform_conv2d"),
    ):
        all_offsets = offsets.reshape(1, 18, 1, 1).expand(1, 18, _SIDE, _SIDE)
        out = deform_conv2d_sized.reference(
            image[None, None], all_offsets, weight, None, None, Geometry(pad_y=1, pad_x=1)
        )
        drawing.label((left + 126, 24), name, "strong middle")
        drawing.pixels((left, 34), image.tolist(), size)
        for row in range(3):
            for column in range(3):
                grid = (left + (middle + column - 0.5) * size, 34 + (middle + row - 0.5) * size)
                dy, dx = offsets[row, column].tolist()
                tap = (grid[0] + dx * size, grid[1] + dy * size)
                if abs(dx) + abs(dy) > 0:
                    drawing.dot(grid, "line-fill", 3)
                    drawing.line(grid, tap, "line thin")
                drawing.dot(tap, "b-fill", 6)
        value = out[0, 0, middle, middle].item()
        drawing.label((left + 126, 310), f"mean of the nine samples: {value:.2f}", "b-text middle")
    drawing.label(
        (280, 334), "samples between pixels are interpolated; a mask gives each tap a factor", "small muted middle"
    )
    return drawing


def draw_ms_deform_attn() -> Drawing:
    """One query's points on three levels, with their weights as sizes."""
    sides, size = (12, 6, 3), 172.0
    levels = [_arc(side) for side in sides]
    value = torch.cat([level.flatten() for level in levels])[None, :, None, None]
    shapes = torch.tensor([[side, side] for side in sides])
    starts = torch.tensor([0, sides[0] ** 2, sides[0] ** 2 + sides[1] ** 2])
    reference = (0.5, 0.5)
    # A head of the paper's modules begins with points that lie on a ray; these have moved a little.
    shifts = (
        ((-0.05, 0.04), (0.11, -0.18), (-0.16, 0.14), (0.03, 0.15)),
        ((-0.1, 0.0), (0.22, -0.22), (-0.22, 0.26), (-0.14, -0.14)),
        ((-0.25, 0.22), (0.28, -0.26), (0.05, 0.3), (-0.3, -0.25)),
    )
    scores = torch.tensor([2.0, 1.6, 1.7, 0.4, 2.2, 1.0, 0.8, 1.3, 1.2, 0.6, -0.2, 0.1], dtype=torch.float64)
    locations = torch.tensor(shifts, dtype=torch.float64) + torch.tensor(reference, dtype=torch.float64)
    weights = scores.softmax(0)
    out = ms_deform_attn_sampled.reference(
        value, shapes, starts, locations[None, None, None], weights.view(1, 1, 1, 3, 4)
    )
    drawing = Drawing(
        "One query on three levels of a pyramid: around its reference point four points each, whose weights sum to 1",
        308,
        (194, 30, 172, 172),
    )
    for index, (side, level) in enumerate(zip(sides, levels, strict=True)):
        corner = (8 + 186 * index, 30)
        drawing.label((corner[0] + size / 2, 20), f"level {index}: {side} × {side}", "strong middle")
        drawing.pixels(corner, level.tolist(), size / side)
        at = _within(corner, size, reference)
        for point in range(4):
            x, y = locations[index, point].tolist()
            place = _within(corner, size, (x, y))
            drawing.line(at, place, "line thin")
            drawing.dot(place, "b-fill", 22 * math.sqrt(weights[4 * index + point].item()))
        drawing.line((at[0] - 7, at[1]), (at[0] + 7, at[1]), "c")
        drawing.line((at[0], at[1] - 7), (at[0], at[1] + 7), "c")
        share = weights[4 * index : 4 * index + 4].sum().item()
        drawing.label((corner[0] + size / 2, 224), f"weights: {share:.2f}", "small muted middle")
        drawing.arrow((corner[0] + size / 2, 230), (280 + 60 * (index - 1), 250))
    drawing.label((280, 270), f"out = sum of weight · sample = {out.item():.2f}", "b-text strong middle")
    drawing.label((280, 300), "cross: the reference point; a dot's area is its weight", "small muted middle")
    return drawing


def _within(corner: Point, size: float, location: Point) -> Point:
    return corner[0] + location[0] * size, corner[1] + location[1] * size
