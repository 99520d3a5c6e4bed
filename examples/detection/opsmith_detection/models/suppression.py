"""Non-maximum suppression of a batch, with a fixed number of results for each image."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from opsmith.ops import nms_padded

__all__ = ["suppress"]


def suppress(
    boxes: Tensor, scores: Tensor, groups: Tensor, group_count: int, iou: float, most: int
) -> tuple[Tensor, Tensor]:
    """Return the scores of the boxes that are kept and their indices, [B, most], by decreasing score.

    Boxes [B, N, 4] of different images or groups, [B, N] and below `group_count`, do not meet. Boxes with a score below
    0 do not exist: they suppress nothing, and -1 are also the scores where less than `most` are kept. All images are one
    call, so that they share its launches.
    """
    images, count = scores.shape
    exists = scores >= 0
    # Boxes of no area do not meet others.
    apart = torch.where(exists[..., None], boxes, 0.0).flatten(0, 1)
    first = group_count * torch.arange(images, device=boxes.device)[:, None]
    kept, _ = nms_padded(apart, scores.flatten(), iou, images * count, (groups + first).flatten())
    # Where the padding of `kept` goes, behind all boxes, is cut off.
    is_kept = exists.new_zeros(images * count + 1)
    is_kept.scatter_(0, torch.where(kept >= 0, kept, images * count), True)
    left = torch.where(exists & is_kept[:-1].view(images, count), scores, -1.0)
    best, index = left.topk(min(most, count))
    missing = (0, max(0, most - count))
    return functional.pad(best, missing, value=-1.0), functional.pad(index, missing)
