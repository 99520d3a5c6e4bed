"""The objects of one image in its own pixels: found by a model, as COCO writes them, and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageDraw, ImageFont
from pycocotools import mask as coco_mask
from torch import Tensor

from opsmith.ops import paste_binary_masks_in_image
from opsmith_detection.data.coco import Category
from opsmith_detection.data.masks import encoded
from opsmith_detection.structures import Batch, Detections

__all__ = ["Found", "as_results", "captions", "draw_objects", "found_in"]

_PASTED_AT_ONCE = 2**26  # pixels of masks, a byte each
# Of labels in turn: colours that differ in lightness too (Okabe and Ito, 2008), and three more.
_COLOURS = (
    (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0), (204, 121, 167),
    (148, 103, 189), (188, 189, 34), (127, 127, 127),
)  # fmt: skip
_OPACITY = np.uint8(128)  # of a mask: half
_ENLARGED_TO = 384  # pixels of the longer side at most


class Found(NamedTuple):
    """The objects of an image in its own pixels, by decreasing score."""

    boxes: npt.NDArray[np.float32]  # [N, 4] as (x1, y1, x2, y2)
    scores: list[float]
    labels: list[int]
    masks: list[dict[str, Any]] | None  # RLE


def found_in(batch: Batch, detections: Detections, place: int, kept: Tensor, size: tuple[int, int]) -> Found:
    """Return detections of an image of a batch, on any device. Masks are pasted there, with boxes as they are.

    Args:
        place: which image of the batch.
        kept: which of its detections, bool [D].
        size: height and width of the image as it was.
    """
    index = kept.nonzero()[:, 0]
    boxes, scores, labels = (field[place, index] for field in detections[:3])
    (height, width), (seen_height, seen_width) = size, batch.sizes[place].tolist()
    boxes = boxes.float() * torch.tensor([width / seen_width, height / seen_height] * 2, device=boxes.device)
    rles = None
    if detections.masks is not None:
        at_once = max(_PASTED_AT_ONCE // (height * width), 1)
        parts = zip(detections.masks[place, index, None].split(at_once), boxes.split(at_once), strict=True)
        pasted = (paste_binary_masks_in_image(*part, size, aligned=True)[:, 0] for part in parts)
        rles = [rle for images in pasted for rle in encoded(images)]
    return Found(boxes.cpu().numpy(), scores.tolist(), labels.tolist(), rles)


def as_results(image: int, found: Found, categories: Mapping[int, Category]) -> list[dict[str, Any]]:
    """Return the objects of the image with this number in COCO's format of results."""
    results: list[dict[str, Any]] = [
        {
            "image_id": image,
            "category_id": _category(label, categories).id,
            "score": score,
            "bbox": [x1, y1, x2 - x1, y2 - y1],
        }
        for (x1, y1, x2, y2), score, label in zip(found.boxes.tolist(), found.scores, found.labels, strict=True)
    ]
    for result, rle in zip(results, found.masks or (), strict=False):
        result["segmentation"] = {**rle, "counts": rle["counts"].decode()}
    return results


def captions(found: Found, categories: Mapping[int, Category]) -> list[str]:
    """Return what is written at each object."""
    named = zip(found.labels, found.scores, strict=True)
    return [f"{_category(label, categories).name} {score:.2f}" for label, score in named]


def draw_objects(image: npt.NDArray[np.uint8], found: Found, names: Sequence[str]) -> Image.Image:
    """Draw objects on an image, RGB of [height, width, 3]. Small images are enlarged.

    Args:
        found: whose labels decide the colours.
        names: what is written at each object.
    """
    picture = Image.fromarray(image)
    for label, rle in zip(found.labels, found.masks or (), strict=False):
        picture.paste(_colour(label), mask=Image.fromarray(_OPACITY * coco_mask.decode(rle)))
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


def _category(label: int, categories: Mapping[int, Category]) -> Category:
    return categories.get(label, Category(str(label), label))  # COCO's ids have gaps
