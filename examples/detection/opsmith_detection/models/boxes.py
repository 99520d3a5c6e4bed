"""Boxes: anchors, offsets from one box to another, suppression, all of fixed sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from opsmith.ops import box_convert, nms_padded
from opsmith_detection.structures import Detections

__all__ = ["Anchors", "box_loss", "clip", "decode", "detect", "encode", "has_area", "pick", "suppress"]

_MOST = math.log(1000 / 16)  # what a logarithm of a size may be, so that its exponential stays a number

Weights = tuple[float, float]


class Anchors(nn.Module):
    """The anchors of canvases, which are made once for each.

    Args:
        sizes: of each level: the roots of the anchors' areas in pixels.
        ratios: heights to widths.
    """

    def __init__(self, sizes: Sequence[Sequence[float]], ratios: Sequence[float]) -> None:
        super().__init__()
        self.count = len(sizes[0]) * len(ratios)  # around each pixel
        high = torch.tensor(ratios, dtype=torch.float32).sqrt()[:, None]
        for level, of_level in enumerate(sizes):
            size = torch.tensor(of_level, dtype=torch.float32)
            sides = torch.stack([(1 / high * size).flatten(), (high * size).flatten()], 1)
            self.register_buffer(f"cell{level}", (torch.cat([-sides, sides], 1) / 2).round(), persistent=False)
        self._made: dict[tuple[object, ...], list[Tensor]] = {}

    def forward(self, canvas: Sequence[int], levels: Sequence[Tensor]) -> list[Tensor]:
        """Return the anchors of each level, float32 [H W count, 4], of a canvas of this height and width."""
        place = (*canvas, *(tuple(level.shape[2:]) for level in levels), levels[0].device)
        if torch.compiler.is_compiling():
            return self._make(canvas, levels)
        if place not in self._made:
            made = self._make(canvas, levels)
            if levels[0].is_cuda and torch.cuda.is_current_stream_capturing():
                return made  # of the graph's memory, which is not to be kept
            self._made[place] = made
        return self._made[place]

    def _make(self, canvas: Sequence[int], levels: Sequence[Tensor]) -> list[Tensor]:
        anchors = []
        for number, level in enumerate(levels):
            cell = self.get_buffer(f"cell{number}")
            y, x = (
                torch.arange(count, device=cell.device, dtype=torch.float32) * (side // count)
                for count, side in zip(level.shape[2:], canvas, strict=True)
            )
            corner = torch.stack(torch.meshgrid(x, y, indexing="xy"), -1).reshape(-1, 1, 2)
            anchors.append((torch.cat([corner, corner], -1) + cell).reshape(-1, 4))
        return anchors


def encode(boxes: Tensor, references: Tensor, weights: Weights = (1.0, 1.0)) -> Tensor:
    """Return what leads from the references to the boxes, [..., 4]: how far to move and by what factors to grow.

    The coding of Girshick et al., "Rich feature hierarchies" (https://arxiv.org/abs/1311.2524). `weights` are those of
    moving and growing. A box or a reference of no area gives what is not finite.
    """
    to, of = box_convert(boxes, "xyxy", "cxcywh"), box_convert(references, "xyxy", "cxcywh")
    moved = weights[0] * (to[..., :2] - of[..., :2]) / of[..., 2:]
    return torch.cat([moved, weights[1] * torch.log(to[..., 2:] / of[..., 2:])], -1)


def decode(deltas: Tensor, references: Tensor, weights: Weights = (1.0, 1.0)) -> Tensor:
    """Return the boxes to which `deltas` lead from the references, float32 [..., 4]."""
    deltas, of = deltas.float(), box_convert(references, "xyxy", "cxcywh")
    centres = deltas[..., :2] / weights[0] * of[..., 2:] + of[..., :2]
    half = 0.5 * (deltas[..., 2:] / weights[1]).clamp(max=_MOST).exp() * of[..., 2:]
    return torch.cat([centres - half, centres + half], -1)


def box_loss(
    deltas: Tensor, boxes: Tensor, references: Tensor, counts: Tensor, weights: Weights = (1.0, 1.0)
) -> Tensor:
    """Return the sum of smooth L1 losses of the deltas, [B, K, 4], that should lead to the boxes and `counts`, [B, K]."""
    counts = counts[..., None]
    wanted = torch.where(counts, encode(boxes, references, weights), 0.0)
    losses = functional.smooth_l1_loss(deltas, wanted, beta=1 / 9, reduction="none")
    return torch.where(counts, losses, 0.0).sum()


def clip(boxes: Tensor, sizes: Tensor) -> Tensor:
    """Clip the boxes of images, [B, N, 4], to heights and widths, [B, 2]. These are on the device, unlike a canvas'."""
    limits = sizes.flip(1).repeat(1, 2)
    return torch.minimum(boxes.clamp(min=0), limits[:, None])


def has_area(boxes: Tensor, least: float = 0.0) -> Tensor:
    """Return which boxes are at least so wide and high, in pixels, and more than 0; bool [...]."""
    sides = boxes[..., 2:] - boxes[..., :2]
    return ((sides >= least) & (sides > 0)).all(-1)


def pick(values: Tensor, index: Tensor) -> Tensor:
    """Return the values [B, N, ...] of each image at `index` [B, K]: [B, K, ...]."""
    return values.gather(1, index[(...,) + (None,) * (values.dim() - 2)].expand(-1, -1, *values.shape[2:]))


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


def detect(boxes: Tensor, scores: Tensor, labels: Tensor, classes: int, iou: float, most: int) -> Detections:
    """Return what `suppress` leaves of boxes [B, N, 4] with labels [B, N] below `classes`, [B, most]."""
    best, index = suppress(boxes, scores, labels, classes, iou, most)
    is_found = best >= 0
    return Detections(
        torch.where(is_found[..., None], pick(boxes, index), 0.0),
        torch.where(is_found, best, 0.0),
        torch.where(is_found, labels.gather(1, index), 0),
    )
