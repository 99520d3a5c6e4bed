"""Draws objects on images: masks, boxes and labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont
from pycocotools import mask as coco_mask

from opsmith_detection.found import Found

__all__ = ["draw_objects"]

# Of labels in turn: colours that differ in lightness too (Okabe and Ito, 2008), and three more.
_COLOURS = (
    (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0), (204, 121, 167),
    (148, 103, 189), (188, 189, 34), (127, 127, 127),
)  # fmt: skip
_COVER = 0.5  # of a mask
_ENLARGED_TO = 384  # pixels of the longer side at most


def draw_objects(image: npt.NDArray[np.uint8], found: Found, names: Sequence[str]) -> Image.Image:
    """Draw objects on an image, RGB of [height, width, 3]. Small images are enlarged.

    Args:
        found: whose labels decide the colours.
        names: what is written at each object.
    """
    pixels = image.astype(np.float32)
    for label, rle in zip(found.labels, found.masks or (), strict=False):
        inside = coco_mask.decode(rle).astype(np.bool_)
        pixels[inside] += _COVER * (np.array(_colour(label), np.float32) - pixels[inside])
    picture = Image.fromarray(pixels.round().astype(np.uint8))
    enlarge = max(1, _ENLARGED_TO // max(picture.size))
    picture = picture.resize((picture.width * enlarge, picture.height * enlarge), Image.Resampling.NEAREST)
    draw = ImageDraw.Draw(picture)
    font = ImageFont.load_default(max(10, min(picture.size) // 32))
    for (x1, y1, x2, y2), label, name in zip((found.boxes * enlarge).tolist(), found.labels, names, strict=True):
        draw.rectangle((x1, y1, max(x1, x2 - 1), max(y1, y2 - 1)), outline=_colour(label), width=2)
        left, _, right, bottom = draw.textbbox((0, 0), name, font=font)
        y = y1 - bottom - 2 if y1 > bottom + 2 else y1
        draw.rectangle((x1, y, x1 + right - left + 4, y + bottom + 2), fill=_colour(label))
        draw.text((x1 + 2, y), name, fill=(0, 0, 0), font=font)
    return picture


def _colour(label: int) -> tuple[int, int, int]:
    return _COLOURS[(label - 1) % len(_COLOURS)]
