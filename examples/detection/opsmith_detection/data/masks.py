"""Masks of objects in COCO's format: polygons and run lengths (RLE), and what of them lies in a box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pycocotools import mask as coco_mask
from torch import Tensor

__all__ = ["as_rle", "cut_out", "encoded", "pixels_of"]


def as_rle(segmentation: Any, size: tuple[int, int]) -> dict[str, Any]:
    """Return polygons or an RLE as a compressed RLE of an image of `size` (height, width)."""
    if isinstance(segmentation, list):
        return dict(coco_mask.merge(coco_mask.frPyObjects(segmentation, *size)))
    if isinstance(segmentation["counts"], list):
        return dict(coco_mask.frPyObjects(segmentation, *size))
    return dict(segmentation)


def cut_out(
    segmentation: Any, size: tuple[int, int], box: npt.NDArray[np.float32], resolution: int
) -> npt.NDArray[np.uint8]:
    """Return the mask in `box` (x1, y1, x2, y2), on a grid over it, as uint8 [resolution, resolution].

    An element is the share of its cell that the mask covers, from 0 to 255, with pixels as squares. So roi_align of the
    grid with `aligned=True`, at a proposal in the grid's coordinates, is roi_align of the whole mask at the proposal.
    """
    x1, y1, x2, y2 = box.astype(np.float64).tolist()
    left, top = int(x1), int(y1)
    right, bottom = max(int(np.ceil(x2)), left + 1), max(int(np.ceil(y2)), top + 1)
    if isinstance(segmentation, list):
        # Drawn near the box alone: a move by whole pixels does not change a polygon, unless it goes below 0.
        points = [np.reshape(polygon, (-1, 2)) for polygon in segmentation]
        corner = np.minimum((left, top), np.floor(np.min([p.min(0) for p in points], 0)).clip(0)).astype(np.int64)
        moved = [(p - corner).ravel().tolist() for p in points]
        across, down = (int(c) for c in corner)
        mask = coco_mask.decode(as_rle(moved, (bottom - down, right - across)))[top - down :, left - across :]
    else:
        mask = coco_mask.decode(as_rle(segmentation, size))[top:bottom, left:right]
    sums = np.zeros((bottom - top + 1, right - left + 1), np.int64)
    mask.cumsum(0, np.int64, sums[1:, 1:]).cumsum(1, out=sums[1:, 1:])
    rows = np.linspace(y1 - top, y2 - top, resolution + 1)
    columns = np.linspace(x1 - left, x2 - left, resolution + 1)
    covered = np.diff(_between(np.diff(_between(sums, rows), axis=0).T, columns), axis=0).T
    cell = (y2 - y1) * (x2 - x1) / resolution**2
    shares: npt.NDArray[np.uint8] = np.rint(covered * (255 / cell)).clip(0, 255).astype(np.uint8)
    return shares


def _between(values: npt.NDArray[Any], at: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return rows of `values` at fractions of rows, interpolated."""
    low = np.minimum(at.astype(np.int64), len(values) - 2)
    share = (at - low)[:, None]
    return np.asarray(values[low] * (1 - share) + values[low + 1] * share)


def encoded(masks: Tensor) -> list[dict[str, Any]]:
    """Return bool masks [N, height, width] as compressed RLE. Of masks on a GPU, only the runs' ends are copied."""
    count, height, width = masks.shape
    columns = masks.transpose(1, 2).reshape(count, height * width)
    ends = (columns[:, 1:] != columns[:, :-1]).nonzero().cpu().numpy()
    # Runs alternate, and the first one is of zeros.
    begins_set: list[bool] = columns[:, 0].tolist()
    of_mask = np.split(ends[:, 1] + 1, np.searchsorted(ends[:, 0], np.arange(1, count)))
    rles = []
    for is_set, at in zip(begins_set, of_mask, strict=False):
        runs = [0] * is_set + np.diff(at, prepend=0, append=height * width).tolist()
        rles.append(dict(coco_mask.frPyObjects({"size": [height, width], "counts": runs}, height, width)))
    return rles


def pixels_of(counts: str | Sequence[int]) -> int | None:
    """Return how many pixels the runs of an RLE have, None if they are not runs.

    pycocotools does not ask: it returns memory that nobody has written where an RLE is too short.
    """
    if not isinstance(counts, str):
        return sum(counts)
    # Runs are numbers to the base of 32, little-endian: a character has five bits, a sixth if more follow, and the last
    # one's fifth is a sign. From the fourth run on they are differences to the last but one.
    runs: list[int] = []
    run = shift = 0
    for character in counts.encode():
        digit = character - 48
        if not 0 <= digit < 64:
            return None
        run |= (digit & 31) << shift
        shift += 5
        if digit & 32:
            continue
        if digit & 16:
            run -= 1 << shift
        runs.append(run + (runs[-2] if len(runs) > 2 else 0))
        run = shift = 0
    return None if shift or not runs or min(runs) < 0 else sum(runs)
