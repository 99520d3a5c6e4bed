"""Draws objects on images: masks, boxes and labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

__all__ = ["draw_objects"]

# Of labels in turn: colours that differ in lightness too (Okabe and Ito, 2008), and three more.
_COLOURS = (
    (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0), (204, 121, 167),
    (148, 103, 189), (188, 189, 34), (127, 127, 127),
)  # fmt: skip
_COVER = 0.5  # of a mask


def draw_objects(
    image: npt.NDArray[np.uint8],
    boxes: npt.NDArray[np.float32],
    labels: Sequence[int],
    names: Sequence[str],
    masks: npt.NDArray[np.bool_] | None = None,
    enlarge: int = 1,
) -> Image.Image:
    """Draw objects on an image.

    Args:
        image: RGB, [height, width, 3].
        boxes: [N, 4] as (x1, y1, x2, y2) in the image's pixels.
        labels: decide the colours.
        names: what is written at each box.
        masks: [N, height, width].
        enlarge: how many pixels each one of the image becomes, so that small images can be labelled.
    """
    pixels = image.astype(np.float32)
    for i, label in enumerate(labels):
        if masks is not None:
            pixels[masks[i]] += _COVER * (np.array(_colour(label), np.float32) - pixels[masks[i]])
    picture = Image.fromarray(pixels.round().astype(np.uint8))
    if enlarge > 1:
        picture = picture.resize((picture.width * enlarge, picture.height * enlarge), Image.Resampling.NEAREST)
    draw = ImageDraw.Draw(picture)
    font = ImageFont.load_default(max(10, min(picture.size) // 32))
    for box, label, name in zip(boxes * enlarge, labels, names, strict=True):
        x1, y1, x2, y2 = (float(side) for side in box)
        draw.rectangle((x1, y1, max(x1, x2 - 1), max(y1, y2 - 1)), outline=_colour(label), width=2)
        left, _, right, bottom = draw.textbbox((0, 0), name, font=font)
        y = y1 - bottom - 2 if y1 > bottom + 2 else y1
        draw.rectangle((x1, y, x1 + right - left + 4, y + bottom + 2), fill=_colour(label))
        draw.text((x1 + 2, y), name, fill=(0, 0, 0), font=font)
    return picture


def _colour(label: int) -> tuple[int, int, int]:
    return _COLOURS[(label - 1) % len(_COLOURS)]
