"""The pictures of boxes and paste_masks."""

from __future__ import annotations

import torch

from generators.pictures.drawing import Drawing
from opsmith.ops.boxes.pairwise import box_overlaps
from opsmith.ops.paste_masks.sized import Pasting, pasted_masks

__all__ = ["draw_boxes", "draw_paste_masks"]

_PAIR = ((20.0, 30.0, 190.0, 150.0), (110.0, 80.0, 270.0, 200.0))  # x1, y1, x2, y2
_MASK, _BOX, _IMAGE = 7, (4.0, 2.0, 15.0, 11.0), (14, 20)  # the mask's side, the box, height and width


def draw_boxes() -> Drawing:
    """Two boxes, what they share, and the box around both."""
    pair = torch.tensor([_PAIR], dtype=torch.float64)
    overlap, general = (
        float(box_overlaps.reference(pair[:, :1], pair[:, 1:], "xyxy", generalized)) for generalized in (False, True)
    )
    drawing = Drawing(
        f"Two boxes whose intersection is {overlap:.2f} of their union; their generalized overlap is {general:.2f}",
        232,
        (14, 24, 262, 182),
    )
    (ax1, ay1, ax2, ay2), (bx1, by1, bx2, by2) = _PAIR
    shared = (max(ax1, bx1), max(ay1, by1), min(ax2, bx2), min(ay2, by2))
    drawing.box((min(ax1, bx1) - 4, min(ay1, by1) - 4), (max(ax2, bx2) - 12, max(ay2, by2) - 22), "line dashed")
    drawing.box(shared[:2], (shared[2] - shared[0], shared[3] - shared[1]), "c-fill", opacity=0.35)
    drawing.box((ax1, ay1), (ax2 - ax1, ay2 - ay1), "a")
    drawing.box((bx1, by1), (bx2 - bx1, by2 - by1), "b")
    for row, (kind, text) in enumerate(
        (
            ("c-text start", "what both cover, by what either"),
            ("strong start", f"box_iou = {overlap:.2f}"),
            ("muted start", "dashed: around both; less the"),
            ("muted start", "part of it that neither covers"),
            ("strong start", f"generalized_box_iou = {general:.2f}".replace("-", "\u2212")),
        )
    ):
        drawing.label((300, 60 + 30 * row), text, kind)
    return drawing


def draw_paste_masks() -> Drawing:
    """A small mask, and the image that it is resized and pasted into."""
    place = torch.linspace(-1, 1, _MASK, dtype=torch.float64)
    mask = (1.4 - 1.5 * (place[:, None] ** 2 + place**2)).clamp(0, 1)[None]
    height, width = _IMAGE
    pasting = Pasting(_MASK, _MASK, height, width, 1)
    image = pasted_masks.reference(mask, torch.tensor([_BOX]), pasting)
    drawing = Drawing(
        f"A mask of {_MASK} x {_MASK} numbers becomes part of an image: resized to its box, zero everywhere else",
        236,
        (200, 30, 340, 180),
    )
    drawing.label((78, 22), f"mask, {_MASK} x {_MASK}", "strong middle")
    drawing.pixels((22, 62), mask[0].tolist(), 16)
    drawing.arrow((146, 118), (190, 118))
    drawing.label((370, 22), f"image, {height} x {width}", "strong middle")
    size = 12.0
    drawing.pixels((250, 34), image[0].tolist(), size)
    x1, y1, x2, y2 = _BOX
    drawing.box((250 + x1 * size, 34 + y1 * size), ((x2 - x1) * size, (y2 - y1) * size), "b")
    drawing.label((370, 226), "the box: whole pixels, a border of zeros around the mask", "small muted middle")
    return drawing
