"""Boxes as offsets from other boxes, and what batches of boxes need."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from opsmith.ops import box_convert

__all__ = ["clip", "decode", "encode", "has_area", "pick"]

_MOST = math.log(1000 / 16)  # what a logarithm of a size may be, so that its exponential stays a number

Weights = tuple[float, float]


def encode(boxes: Tensor, references: Tensor, weights: Weights = (1.0, 1.0)) -> Tensor:
    """Return what leads from the references to the boxes, [..., 4]: how far to move and by what factors to grow.

    The coding of Girshick et al., "Rich feature hierarchies" (https://arxiv.org/abs/1311.2524). `weights` are those of
    moving and growing. A box or a reference of no area gives what is not finite.
    """
    to, of = (box_convert(each, "xyxy", "cxcywh") for each in (boxes, references))
    moved = weights[0] * (to[..., :2] - of[..., :2]) / of[..., 2:]
    return torch.cat([moved, weights[1] * torch.log(to[..., 2:] / of[..., 2:])], -1)


def decode(deltas: Tensor, references: Tensor, weights: Weights = (1.0, 1.0)) -> Tensor:
    """Return the boxes to which `deltas` lead from the references, float32 [..., 4]."""
    deltas, of = deltas.float(), box_convert(references, "xyxy", "cxcywh")
    centres = deltas[..., :2] / weights[0] * of[..., 2:] + of[..., :2]
    half = 0.5 * (deltas[..., 2:] / weights[1]).clamp(max=_MOST).exp() * of[..., 2:]
    return torch.cat([centres - half, centres + half], -1)


def clip(boxes: Tensor, sizes: Tensor) -> Tensor:
    """Clip the boxes of images, [B, N, 4], to heights and widths, [B, 2]. These are on the device, unlike a canvas'."""
    limits = sizes.flip(1).repeat(1, 2)
    return torch.minimum(boxes.clamp(min=0), limits[:, None])


def has_area(boxes: Tensor, least: float = 0.0) -> Tensor:
    """Return which boxes are at least so wide and high, in pixels, and more than 0; bool [...]."""
    sides = boxes[..., 2:] - boxes[..., :2]
    return ((sides >= least) & (sides > 0)).all(-1)


def pick(values: Tensor, index: Tensor) -> Tensor:
    """Return the values [B, N, ...] of each image at `index` [B, K]: [B, K, ...]."""
    return values.gather(1, index[(...,) + (None,) * (values.dim() - 2)].expand(-1, -1, *values.shape[2:]))
