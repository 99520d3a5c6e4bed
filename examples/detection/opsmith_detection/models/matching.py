"""Which object a box stands for, and which boxes a loss is made of: results of fixed sizes, found without the host.

What a loop over found boxes would leave out is marked instead.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from opsmith_detection.models.boxes import has_area
from opsmith_detection.models.overlaps import best_overlaps
from opsmith_detection.structures import Targets

__all__ = ["BACKGROUND", "FOREGROUND", "IGNORED", "Samples", "match", "objects_of", "sample"]

FOREGROUND, BACKGROUND, IGNORED = 1, 0, -1


class Samples(NamedTuple):
    """Boxes of each image, the foreground first."""

    chosen: Tensor  # int64 [B, K], indices, each at most once
    is_valid: Tensor  # bool [B, K]; the others are there because there are not enough
    is_foreground: Tensor  # bool [B, K], valid too


def objects_of(targets: Targets) -> tuple[Tensor, Tensor]:
    """Return the boxes of objects, [B, G, 4], and which there are, bool [B, G].

    The boxes of padding, and of objects without an area, are zeros, which overlap nothing.
    """
    exists = (targets.labels > 0) & has_area(targets.boxes)
    return torch.where(exists[..., None], targets.boxes, 0.0), exists


@torch.no_grad()
def match(
    objects: Tensor, boxes: Tensor, foreground_iou: float, background_iou: float, *, best_too: bool
) -> tuple[Tensor, Tensor]:
    """Match the boxes of each image, [B, N, 4], or the same ones in all, [N, 4], to its objects, [B, G, 4].

    A box is foreground from one overlap on and background below the other. With `best_too` the boxes that overlap an
    object most are foreground as well, of the object that they overlap most themselves. Padding has no area. A box of no
    area that meets an object of no area is ignored: their overlap is 0/0.

    Returns:
        The index of the object that each box overlaps most, and what that makes the box, one of the three above; both
        int64 [B, N].
    """
    highest, index, is_best = best_overlaps(objects, boxes.expand(len(objects), -1, -1), best_too)
    kind = torch.where(highest < background_iou, BACKGROUND, IGNORED)
    return index, torch.where((highest >= foreground_iou) | is_best, FOREGROUND, kind)


@torch.no_grad()
def sample(kind: Tensor, count: int, positive_fraction: float) -> Samples:
    """Draw `count` boxes of each image by their kinds, [B, N]: at most a fraction of foreground, else background.

    Each box draws a number, and those with the largest ones are taken.
    """
    drawn = torch.rand(kind.shape, device=kind.device)
    boxes = kind.shape[1]
    foreground = torch.where(kind == FOREGROUND, drawn, -1.0)
    best, index = foreground.topk(min(int(count * positive_fraction), boxes), sorted=False)
    rank = torch.where(kind == BACKGROUND, drawn, -1.0)
    rank = rank.scatter(1, index, torch.where(best >= 0, best + 1, rank.gather(1, index)))
    rank, index = rank.topk(min(count, boxes))
    return Samples(index, rank >= 0, rank >= 1)
