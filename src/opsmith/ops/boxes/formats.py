"""Reads and converts the three formats of boxes, in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from opsmith.errors import ArgumentValueError

__all__ = ["ROUND_EACH", "Format", "as_corners", "convert"]

Format = Literal["xyxy", "xywh", "cxcywh"]

# Without it g++ would fuse a product into a sum where the processor can, and a box's overlap with itself might not be 1.
ROUND_EACH = ("-ffp-contract=off",)


_Map = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]

# Along an axis a box is two numbers, of one format; these are they in another.
_CONVERSIONS: dict[tuple[str, str], _Map] = {
    ("xyxy", "xyxy"): lambda first, last: (first, last),
    ("xyxy", "xywh"): lambda first, last: (first, last - first),
    ("xyxy", "cxcywh"): lambda first, last: ((first + last) / 2, last - first),
    ("xywh", "xyxy"): lambda first, length: (first, first + length),
    ("xywh", "xywh"): lambda first, length: (first, length),
    ("xywh", "cxcywh"): lambda first, length: (first + length / 2, length),
    ("cxcywh", "xyxy"): lambda middle, length: (middle - length / 2, middle + length / 2),
    ("cxcywh", "xywh"): lambda middle, length: (middle - length / 2, length),
    ("cxcywh", "cxcywh"): lambda middle, length: (middle, length),
}
# From the gradients of the two numbers in the second format to those in the first.
_TRANSPOSES: dict[tuple[str, str], _Map] = {
    ("xyxy", "xyxy"): lambda a, b: (a, b),
    ("xyxy", "xywh"): lambda a, b: (a - b, b),
    ("xyxy", "cxcywh"): lambda a, b: (a / 2 - b, a / 2 + b),
    ("xywh", "xyxy"): lambda a, b: (a + b, b),
    ("xywh", "xywh"): lambda a, b: (a, b),
    ("xywh", "cxcywh"): lambda a, b: (a, a / 2 + b),
    ("cxcywh", "xyxy"): lambda a, b: (a + b, (b - a) / 2),
    ("cxcywh", "xywh"): lambda a, b: (a, b - a / 2),
    ("cxcywh", "cxcywh"): lambda a, b: (a, b),
}


def convert(boxes: Tensor, in_fmt: str, out_fmt: str, *, transposed: bool = False) -> Tensor:
    """Return boxes [..., 4] in another format; with `transposed` the gradient of the boxes, from that of the result.

    Raises ArgumentValueError for a format that is none of the three.
    """
    table = _TRANSPOSES if transposed else _CONVERSIONS
    if (in_fmt, out_fmt) not in table:
        raise ArgumentValueError(f"the formats of boxes are xyxy, xywh and cxcywh; found {in_fmt} and {out_fmt}")
    return torch.cat(table[in_fmt, out_fmt](boxes[..., :2], boxes[..., 2:]), -1)


def as_corners(boxes: Tensor, fmt: str) -> Tensor:
    """Return boxes [..., 4] as (x1, y1, x2, y2)."""
    return boxes if fmt == "xyxy" else convert(boxes, fmt, "xyxy")
