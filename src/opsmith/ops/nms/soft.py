"""Soft non-maximum suppression: overlapped boxes lose score instead of going at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import opsmith
from opsmith.errors import ArgumentValueError
from opsmith.ops.nms.order import by_decreasing_score

__all__ = ["soft_nms", "soft_nms_padded"]


# Without it g++ would fuse a product into a sum where the processor can; see overlap.h.
_FLAGS = ("-ffp-contract=off",)


@opsmith.op(
    cpu=opsmith.native("soft_nms.cpp", entry="soft_nms_cpu", flags=_FLAGS),
    cuda=opsmith.native("soft_nms_gpu.cpp", "soft_nms.cu", entry="soft_nms_gpu"),
    outputs=("dets", "inds"),
    nondifferentiable=("boxes", "scores", "dets"),
    batch=False,
)
def soft_nms(
    boxes: Float[Tensor, "N 4"],
    scores: Float[Tensor, "N"],
    iou_threshold: float = 0.3,
    sigma: float = 0.5,
    min_score: float = 1e-3,
    method: str = "linear",
    offset: int = 0,
) -> tuple[Float[Tensor, "K 5"], Int64[Tensor, "K"]]:
    """Return boxes with their lowered scores, [K, 5], and their indices, int64 [K], by decreasing lowered score.

    As `mmcv.ops.soft_nms` (Bodla et al., "Soft-NMS: Improving Object Detection With One Line of Code", ICCV 2017). The box
    of the highest score is taken out, again and again until none is left, and the scores of the others are multiplied: for
    "linear" by 1 - overlap and for "naive" by 0 where the overlap (intersection over union) is at least `iou_threshold`;
    for "gaussian" by exp(-overlap^2 / sigma). A box whose score falls below `min_score` goes. `offset` is added to
    widths and heights: 1 for boxes whose last pixel is inside.

    Equal scores go by index, NaN scores first. Boxes without an area overlap nothing, nor do boxes with a NaN or without
    a finite area. There is no gradient. Boxes on a GPU stay there; the call waits for the number of those that are left.
    """
    if method not in ("naive", "linear", "gaussian"):
        raise ArgumentValueError(f"soft_nms(): method is {method!r:.60}, expected 'naive', 'linear' or 'gaussian'")
    wide, left = (x if x.dtype == torch.float64 else x.float() for x in (boxes, scores))
    wide = torch.cat([wide[:, :2], wide[:, 2:] + offset], 1)
    lengths = wide[:, 2:] - wide[:, :2]
    area = torch.where(lengths <= 0, 0, lengths).prod(1)
    area = torch.where(area <= torch.finfo(area.dtype).max, area, torch.nan)
    inds, lowered = torch.arange(len(boxes), device=boxes.device), left
    kept, kept_scores = [], []
    while len(inds):
        best = by_decreasing_score(lowered)[0]
        kept.append(inds[best])
        kept_scores.append(lowered[best])
        box, box_area = wide[inds[best]], area[inds[best]]
        others = torch.cat([inds[:best], inds[best + 1 :]])
        lowered = torch.cat([lowered[:best], lowered[best + 1 :]])
        shared = torch.minimum(box[2:], wide[others, 2:]) - torch.maximum(box[:2], wide[others, :2])
        intersection = torch.where(shared > 0, shared, 0).prod(1)
        overlap = intersection / ((box_area + area[others]) - intersection)
        overlap = torch.where(intersection > 0, overlap, 0)
        if method == "gaussian":
            weight = torch.where(overlap > 0, torch.exp(-(overlap * overlap) / sigma), 1)
        else:
            weight = torch.where(overlap >= iou_threshold, 1 - overlap if method == "linear" else 0.0, 1)
        lowered = lowered * weight
        stays = ~(lowered < min_score)
        inds, lowered = others[stays], lowered[stays]
    if not kept:
        return boxes.new_empty(0, 5), inds
    inds = torch.stack(kept)
    return torch.cat([boxes[inds], torch.stack(kept_scores).to(boxes.dtype)[:, None]], 1), inds


@opsmith.op(
    cpu=opsmith.native("soft_nms.cpp", entry="soft_nms_padded_cpu", flags=_FLAGS),
    cuda=opsmith.native("soft_nms_gpu.cpp", "soft_nms.cu", entry="soft_nms_padded_gpu"),
    outputs=("dets", "inds", "count"),
    nondifferentiable=("boxes", "scores", "dets"),
    batch=False,
)
def soft_nms_padded(
    boxes: Float[Tensor, "N 4"],
    scores: Float[Tensor, "N"],
    max_output: int,
    iou_threshold: float = 0.3,
    sigma: float = 0.5,
    min_score: float = 1e-3,
    method: str = "linear",
    offset: int = 0,
) -> tuple[Float[Tensor, "max_output 5"], Int64[Tensor, "max_output"], Int64[Tensor, ""]]:
    """Return the first `max_output` rows of what `soft_nms` does, zeros and -1 behind them, and their number.

    The sizes do not depend on the data, so on a GPU nothing waits for it: a CUDA graph can hold the call. No more than
    `max_output` boxes are taken out, and the time goes with that number.
    """
    kept, indices = soft_nms.reference(boxes, scores, iou_threshold, sigma, min_score, method, offset)
    found = min(len(kept), max_output)
    dets, inds = boxes.new_zeros(max_output, 5), indices.new_full((max_output,), -1)
    dets[:found], inds[:found] = kept[:found], indices[:found]
    return dets, inds, inds.new_full((), found)


@soft_nms.examples
def _detections() -> Iterator[tuple[Any, ...]]:
    generator = torch.Generator().manual_seed(0)
    for method in ("naive", "linear", "gaussian"):
        corners = 32 * torch.rand(50, 2, generator=generator)
        boxes = torch.cat([corners, corners + 1 + 8 * torch.rand(50, 2, generator=generator)], 1)
        for offset in (0, 1):
            yield boxes, torch.rand(50, generator=generator), 0.3, 0.5, 0.05, method, offset


@soft_nms_padded.examples
def _detections_to_pad() -> Iterator[tuple[Any, ...]]:
    for boxes, scores, *rules in _detections():
        yield boxes, scores, 20, *rules
