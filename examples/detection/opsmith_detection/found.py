"""The objects of one image in its own pixels: what was found there, and how COCO writes that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from opsmith.ops import paste_binary_masks_in_image
from opsmith_detection.data.coco import Category
from opsmith_detection.data.masks import encoded
from opsmith_detection.structures import Batch, Detections

__all__ = ["Found", "as_results", "category_of", "found_in"]

_PASTED_AT_ONCE = 2**26  # pixels of masks, a byte each


class Found(NamedTuple):
    """The objects of an image in its own pixels, by decreasing score."""

    boxes: npt.NDArray[np.float32]  # [N, 4] as (x1, y1, x2, y2)
    scores: list[float]
    labels: list[int]
    masks: list[dict[str, Any]] | None  # RLE


def found_in(batch: Batch, detections: Detections, place: int, kept: Tensor, size: tuple[int, int]) -> Found:
    """Return detections of an image of a batch, on any device. Masks are pasted there.

    Args:
        place: which image of the batch.
        kept: which of its detections, bool [D].
        size: height and width of the image as it was.
    """
    boxes, scores, labels, masks = (None if each is None else each[place][kept] for each in detections)
    assert boxes is not None and scores is not None and labels is not None
    (height, width), (seen_height, seen_width) = size, batch.sizes[place].tolist()
    boxes = boxes.float() * torch.tensor([width / seen_width, height / seen_height] * 2, device=boxes.device)
    rles = None
    if masks is not None:
        at_once = max(_PASTED_AT_ONCE // (height * width), 1)
        parts = zip(masks[:, None].split(at_once), boxes.split(at_once), strict=True)
        rles = [rle for part in parts for rle in encoded(paste_binary_masks_in_image(*part, size)[:, 0])]
    return Found(boxes.cpu().numpy(), scores.tolist(), labels.tolist(), rles)


def category_of(label: int, categories: Mapping[int, Category]) -> Category:
    """Return what a label stands for, the label itself where that is not known: COCO's ids have gaps."""
    return categories.get(label, Category(str(label), label))


def as_results(image: int, found: Found, categories: Mapping[int, Category]) -> list[dict[str, Any]]:
    """Return the objects of the image with this number in COCO's format of results."""
    results: list[dict[str, Any]] = [
        {
            "image_id": image,
            "category_id": category_of(label, categories).id,
            "score": score,
            "bbox": [x1, y1, x2 - x1, y2 - y1],
        }
        for (x1, y1, x2, y2), score, label in zip(found.boxes.tolist(), found.scores, found.labels, strict=True)
    ]
    for result, rle in zip(results, found.masks or (), strict=False):
        result["segmentation"] = {**rle, "counts": rle["counts"].decode()}
    return results
