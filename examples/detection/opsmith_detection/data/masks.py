"""Masks of objects: polygons and run lengths, cut out at boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from pycocotools import mask as coco_mask

__all__ = ["as_rle", "cut_out"]


def as_rle(segmentation: Any, size: tuple[int, int]) -> dict[str, Any]:
    """Return a segmentation of COCO's format as a compressed RLE of an image of `size` (height, width)."""
    if isinstance(segmentation, list):
        return dict(coco_mask.merge(coco_mask.frPyObjects(segmentation, *size)))
    if isinstance(segmentation["counts"], list):
        return dict(coco_mask.frPyObjects(segmentation, *size))
    return dict(segmentation)


def cut_out(
    segmentation: Any, size: tuple[int, int], box: npt.NDArray[np.float32], resolution: int
) -> npt.NDArray[np.uint8]:
    """Return the mask within `box` (x1, y1, x2, y2) as coverages from 0 to 255: [resolution, resolution].

    Each element is the share of its cell that the mask covers, whose pixels are squares.
    """
    mask = coco_mask.decode(as_rle(segmentation, size))
    sums = np.zeros((size[0] + 1, size[1] + 1), np.float32)
    sums[1:, 1:] = mask.cumsum(0, np.float32).cumsum(1)
    x1, y1, x2, y2 = (float(edge) for edge in box)
    rows, columns = np.linspace(y1, y2, resolution + 1), np.linspace(x1, x2, resolution + 1)
    at_rows = _between(sums, rows)
    cells = np.diff(np.diff(_between(at_rows.T, columns).T, axis=0), axis=1)
    cell = (y2 - y1) * (x2 - x1) / resolution**2
    coverages: npt.NDArray[np.uint8] = np.rint(cells * (255 / cell)).clip(0, 255).astype(np.uint8)
    return coverages


def _between(values: npt.NDArray[np.float32], at: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    low = np.minimum(at.astype(np.int64), len(values) - 2)
    share = (at - low)[:, None]
    return np.asarray(values[low] * (1 - share) + values[low + 1] * share)
