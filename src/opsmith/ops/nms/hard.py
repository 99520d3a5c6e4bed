"""Defines greedy non-maximum suppression: the operators, and torchvision's functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import opsmith
from opsmith.ops._arguments import TensorShapeError, check_promotable, check_tensors
from opsmith.ops.nms.order import by_decreasing_score

__all__ = ["batched_nms", "hard_nms", "hard_nms_padded", "nms", "nms_padded"]

# Without it g++ would fuse a product into a sum where the processor can; see overlap.h.
_FLAGS = ("-ffp-contract=off",)


@opsmith.op(
    cpu=opsmith.native("nms_cpu.cpp", entry="hard_nms_cpu", flags=_FLAGS),
    cuda=opsmith.native("nms_gpu.cpp", "nms.cu", "order.cu", entry="hard_nms_gpu"),
    outputs="keep",
    batch=False,
)
def hard_nms(
    boxes: Float[Tensor, "N 4"],
    scores: Float[Tensor, "N"],
    iou_threshold: float,
    idxs: Int64[Tensor, "N"] | None = None,
) -> Int64[Tensor, "K"]:
    """The boxes that greedy suppression keeps, by decreasing score; boxes of different `idxs` do not meet."""
    wide = boxes if boxes.dtype == torch.float64 else boxes.float()
    order = by_decreasing_score(scores)
    suppresses = _suppression(wide[order], iou_threshold).triu(1)
    if idxs is not None:
        suppresses &= idxs[order][:, None] == idxs[order]
    kept = torch.ones_like(order, dtype=torch.bool)
    for rank in suppresses.any(1).nonzero()[:, 0].tolist():
        if kept[rank]:
            kept &= ~suppresses[rank]
    return order[kept]


@opsmith.op(
    cpu=opsmith.native("nms_cpu.cpp", entry="hard_nms_padded_cpu", flags=_FLAGS),
    cuda=opsmith.native("nms_gpu.cpp", "nms.cu", "order.cu", entry="hard_nms_padded_gpu"),
    outputs=("indices", "count"),
    batch=False,
)
def hard_nms_padded(
    boxes: Float[Tensor, "N 4"],
    scores: Float[Tensor, "N"],
    iou_threshold: float,
    max_output: int,
    idxs: Int64[Tensor, "N"] | None = None,
) -> tuple[Int64[Tensor, "max_output"], Int64[Tensor, ""]]:
    """The first `max_output` of `hard_nms`, -1 behind them, and how many there are."""
    keep = hard_nms.reference(boxes, scores, iou_threshold, idxs)[:max_output]
    indices = keep.new_full((max_output,), -1)
    indices[: len(keep)] = keep
    return indices, keep.new_full((), len(keep))


@hard_nms.examples
def _detections() -> Iterator[tuple[Any, ...]]:
    generator = torch.Generator().manual_seed(0)
    # From 400 boxes on, the CPU finds the kept ones near a box in a grid.
    for count, threshold in ((40, 0.5), (300, 0.3), (500, 0.7)):
        corners = 32 * torch.rand(count, 2, generator=generator)
        boxes = torch.cat([corners, corners + 1 + 8 * torch.rand(count, 2, generator=generator)], 1)
        classes = torch.randint(0, 3, (count,), generator=generator)
        for idxs in (None, classes):
            yield boxes, torch.rand(count, generator=generator), threshold, idxs


@hard_nms_padded.examples
def _detections_to_pad() -> Iterator[tuple[Any, ...]]:
    for boxes, scores, threshold, idxs in _detections():
        yield boxes, scores, threshold, 50, idxs


def _suppression(boxes: Tensor, iou_threshold: float) -> Tensor:
    """Whether box i has an intersection over union with box j above the threshold: overlap.h, step by step."""
    threshold = torch.tensor(iou_threshold, dtype=boxes.dtype, device=boxes.device)
    lengths = boxes[:, 2:] - boxes[:, :2]
    area = torch.where(lengths <= 0, 0, lengths).prod(1)
    area = torch.where(area <= torch.finfo(area.dtype).max, area, torch.nan)
    shared = torch.minimum(boxes[:, None, 2:], boxes[:, 2:]) - torch.maximum(boxes[:, None, :2], boxes[:, :2])
    intersection = torch.where(shared > 0, shared, 0).prod(2)
    return intersection > threshold * ((area[:, None] + area) - intersection)


@opsmith.scriptable
def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Return the indices of the boxes that greedy non-maximum suppression keeps, int64 [K], by decreasing score.

    `torchvision.ops.nms`: a box is dropped if its intersection over union with a kept box of a higher score exceeds
    `iou_threshold`. `boxes` are [N, 4] as (x1, y1, x2, y2), `scores` [N]; equal scores go by index. The result is the
    same on every device: the test is made in float32 (float64 for float64), each operation rounded once, without a
    division. Integers are taken as float64, and where types differ the wider is taken.

    A box with x2 <= x1 or y2 <= y1 has an area of 0; two such boxes never suppress each other, nor do boxes with a NaN
    or without a finite area suppress or get suppressed. NaN scores come first, as in torch.sort.

    Raises a ShapeError that is a RuntimeError for shapes that do not fit, in torchvision's words, and ArgumentTypeError
    for arguments of another type.
    """
    if not torch.jit.is_scripting() and not (isinstance(boxes, Tensor) and isinstance(scores, Tensor)):  # type: ignore[attr-defined]
        check_tensors("nms", boxes=boxes, scores=scores)
    floating, ranks = _prepared("nms", boxes, scores)
    keep: Tensor = hard_nms(floating, ranks, iou_threshold)
    return keep


@opsmith.scriptable
def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """Return what `nms` keeps where boxes of different `idxs` [N] (classes, levels, images) do not meet, int64 [K].

    `torchvision.ops.batched_nms`, but compares `idxs` instead of moving classes apart, which costs digits. The order is
    that of decreasing scores over all classes.
    """
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        check_tensors("batched_nms", boxes=boxes, scores=scores, idxs=idxs)
    # torchvision then checks neither the other arguments nor the boxes' shape.
    if not torch.compiler.is_compiling() and boxes.numel() == 0:
        return torch.empty((0,), dtype=torch.int64, device=boxes.device)
    floating, ranks = _prepared("batched_nms", boxes, scores)
    keep: Tensor = hard_nms(floating, ranks, iou_threshold, _classes("batched_nms", idxs, boxes))
    return keep


@opsmith.scriptable
def nms_padded(
    boxes: Tensor, scores: Tensor, iou_threshold: float, max_output: int, idxs: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the first `max_output` indices that `nms` (or `batched_nms`) keeps, -1 behind them, and their number.

    The sizes, int64 [max_output] and [], do not depend on the data, so on a GPU nothing waits for it: a CUDA graph can
    hold the call.
    """
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        check_tensors("nms_padded", optional=("idxs",), boxes=boxes, scores=scores, idxs=idxs)
    floating, ranks = _prepared("nms_padded", boxes, scores)
    classes = None if idxs is None else _classes("nms_padded", idxs, boxes)
    indices, count = hard_nms_padded(floating, ranks, iou_threshold, max_output, classes)
    return indices, count


def _prepared(function: str, boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Check shapes with torchvision's messages, and convert both tensors to one floating type."""
    if boxes.dim() != 2:
        raise TensorShapeError(f"{function}(): boxes should be a 2d tensor, got {boxes.dim()}D")
    if boxes.shape[1] != 4:
        raise TensorShapeError(f"{function}(): boxes should have 4 elements in dimension 1, got {boxes.shape[1]}")
    if scores.dim() != 1:
        raise TensorShapeError(f"{function}(): scores should be a 1d tensor, got {scores.dim()}D")
    _check_count(function, boxes, scores, "scores")
    if boxes.is_quantized:
        boxes, scores = boxes.dequantize(), scores.dequantize()
    if boxes.dtype == scores.dtype and boxes.is_floating_point():
        return boxes, scores
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        check_promotable(function, boxes=boxes, scores=scores)
    dtype = torch.promote_types(boxes.dtype, scores.dtype)
    if not (boxes.is_floating_point() and scores.is_floating_point()):
        dtype = torch.float64
    return boxes.to(dtype), scores.to(dtype)


def _classes(function: str, idxs: Tensor, boxes: Tensor) -> Tensor:
    if idxs.dim() != 1:
        raise TensorShapeError(f"{function}(): idxs should be a 1d tensor, got {idxs.dim()}D")
    _check_count(function, boxes, idxs, "idxs")
    return idxs.to(torch.int64)


def _check_count(function: str, boxes: Tensor, other: Tensor, name: str) -> None:
    # In a graph sizes may be what only the data give, which no `if` can ask for: there the operator checks them.
    if not torch.compiler.is_compiling() and boxes.shape[0] != other.shape[0]:
        raise TensorShapeError(
            f"{function}(): boxes and {name} should have same number of elements in dimension 0, "
            f"got {boxes.shape[0]} and {other.shape[0]}"
        )
