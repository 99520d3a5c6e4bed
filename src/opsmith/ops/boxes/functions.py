"""Defines what torchvision.ops has for boxes: their overlaps and the loss of these, formats, and clipping."""

from __future__ import annotations

import torch
from torch import Tensor

from opsmith.errors import ArgumentValueError, DtypeError
from opsmith.ops._arguments import (
    TensorShapeError,
    check_numbers,
    check_promotable,
    check_storage,
    check_tensors,
    check_texts,
    read_size,
)
from opsmith.ops.boxes.coordinates import clipped_boxes, converted_boxes
from opsmith.ops.boxes.formats import convert
from opsmith.ops.boxes.paired import giou_loss_sum, giou_losses
from opsmith.ops.boxes.pairwise import box_overlaps

__all__ = [
    "box_convert",
    "box_iou",
    "clip_boxes",
    "clip_boxes_to_image",
    "generalized_box_iou",
    "generalized_box_iou_loss",
]


def box_iou(boxes1: Tensor, boxes2: Tensor, fmt: str = "xyxy") -> Tensor:
    """Return intersection over union of each box of one set with each of another, [..., N, M].

    `torchvision.ops.box_iou`.

    Parameters
    ----------
    boxes1, boxes2
        [..., N, 4] and [..., M, 4]; dimensions before these are broadcast. float16 and bfloat16 are computed in float32,
        and the result is float32, as in torchvision. Integers are computed in float64, and the result is float32; so
        products do not overflow. Where types differ the wider is taken.
    fmt
        "xyxy" for corners, "xywh" for a corner and lengths, "cxcywh" for the middle and lengths.

    Areas are width times height, whatever their signs: a box of no area has an overlap of 0 with others and NaN with such a
    box, and a NaN makes all overlaps of its box NaN. Equal boxes have exactly 1. Gradients of any order are the same in
    each run; where two edges are equal, each has half of the gradient.

    Raises ArgumentValueError for another format; TensorShapeError, DtypeError and DeviceError for tensors that do not fit;
    ArgumentTypeError for what is not a tensor.
    """
    check_tensors("box_iou", boxes1=boxes1, boxes2=boxes2)
    check_texts("box_iou", fmt=fmt)
    if fmt not in ("xyxy", "xywh", "cxcywh"):
        raise ArgumentValueError(f"box_iou(): Unsupported format '{fmt}'; expected xyxy, xywh or cxcywh")
    first, second, dtype = _pair("box_iou", boxes1, boxes2)
    overlaps: Tensor = box_overlaps(first, second, fmt, False)
    return overlaps.to(dtype)


def generalized_box_iou(boxes1: Tensor, boxes2: Tensor, fmt: str = "xyxy") -> Tensor:
    """Return the generalized IoU of each box of one set with each of another, [..., N, M].

    `torchvision.ops.generalized_box_iou`, with formats: intersection over union, less the part of the box around both that
    neither covers (Rezatofighi et al., https://arxiv.org/abs/1902.09630). Arguments, gradients and exceptions are those of
    `box_iou`. Two boxes of no area at one point have NaN.
    """
    check_tensors("generalized_box_iou", boxes1=boxes1, boxes2=boxes2)
    check_texts("generalized_box_iou", fmt=fmt)
    if fmt not in ("xyxy", "xywh", "cxcywh"):
        raise ArgumentValueError(f"generalized_box_iou(): Unsupported format '{fmt}'; expected xyxy, xywh or cxcywh")
    first, second, dtype = _pair("generalized_box_iou", boxes1, boxes2)
    overlaps: Tensor = box_overlaps(first, second, fmt, True)
    return overlaps.to(dtype)


def generalized_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7) -> Tensor:
    """Return 1 minus the generalized IoU of each box with its target.

    `torchvision.ops.generalized_box_iou_loss`. Boxes are (x1, y1, x2, y2), [..., 4]; types are treated as in `box_iou`.

    Parameters
    ----------
    reduction
        "none" for a loss a box, [...]; "sum" and "mean" for one number, which is 0 where there are no boxes.
    eps
        Is added to divisors, so two boxes of no area have a finite loss.

    Raises ArgumentValueError for another reduction, in torchvision's words; TensorShapeError, DtypeError and DeviceError for
    tensors that do not fit; ArgumentTypeError for arguments of another type.
    """
    check_tensors("generalized_box_iou_loss", boxes1=boxes1, boxes2=boxes2)
    check_texts("generalized_box_iou_loss", reduction=reduction)
    check_numbers("generalized_box_iou_loss", eps=eps)
    if reduction not in ("none", "mean", "sum"):
        raise ArgumentValueError(
            f"generalized_box_iou_loss(): Invalid Value for arg 'reduction': '{reduction} \n"
            " Supported reduction modes: 'none', 'mean', 'sum'"
        )
    first, second, dtype = _widened("generalized_box_iou_loss", boxes1, boxes2)
    first, second = _broadcast("generalized_box_iou_loss", first, second, 1)
    losses: Tensor
    if reduction == "none":
        losses = giou_losses(first, second, eps)
    else:
        losses = giou_loss_sum(first, second, eps, reduction == "mean" and first.numel() > 0)
    return losses.to(dtype)


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Return boxes [..., 4] in another format, one of "xyxy", "xywh" and "cxcywh".

    `torchvision.ops.box_convert`, without its rotated formats. float16 and bfloat16 are computed in float32 and rounded
    once. Integers become floats where a coordinate may end in one half, as in torchvision; PyTorch's own operators compute
    them. Equal formats give a copy.

    Raises ArgumentValueError for another format, in torchvision's words; TensorShapeError for boxes that are not [..., 4];
    ArgumentTypeError for arguments of another type.
    """
    check_tensors("box_convert", boxes=boxes)
    check_texts("box_convert", in_fmt=in_fmt, out_fmt=out_fmt)
    formats = ("xyxy", "xywh", "cxcywh")
    if in_fmt not in formats or out_fmt not in formats:
        raise ArgumentValueError(
            f"box_convert(): Unsupported Bounding Box Conversions for given in_fmt {in_fmt} and out_fmt {out_fmt}; "
            "expected xyxy, xywh or cxcywh"
        )
    _check_boxes("box_convert", "boxes", boxes)
    if not boxes.is_floating_point():
        _check_integers("box_convert", boxes)
        return convert(boxes, in_fmt, out_fmt)
    converted: Tensor = converted_boxes(boxes, in_fmt, out_fmt)
    return converted


def clip_boxes_to_image(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Return boxes (x1, y1, x2, y2), [..., 4], clipped to an image of `size` (height, width).

    `torchvision.ops.clip_boxes_to_image`: x lie from 0 to the width and y from 0 to the height, both included. A NaN stays.
    Coordinates that clipping leaves as they are have a gradient. Integers are clipped by PyTorch's own operators.

    Raises TensorShapeError for boxes that are not [..., 4]; ArgumentTypeError for a size that is not two ints.
    """
    check_tensors("clip_boxes_to_image", boxes=boxes)
    height, width = read_size("clip_boxes_to_image", "size", size)
    _check_boxes("clip_boxes_to_image", "boxes", boxes)
    if not boxes.is_floating_point():
        _check_integers("clip_boxes_to_image", boxes)
        pairs = boxes.unflatten(-1, (2, 2))
        return torch.stack([pairs[..., 0].clamp(0, width), pairs[..., 1].clamp(0, height)], -1).flatten(-2)
    clipped: Tensor = clipped_boxes(boxes, height, width)
    return clipped


clip_boxes = clip_boxes_to_image


# Of these PyTorch has additions and clamp; of unsigned integers of more than 8 bits it has not.
_INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})


def _check_integers(function: str, boxes: Tensor) -> None:
    if boxes.dtype not in _INTEGERS:
        raise DtypeError(f"{function}(): boxes is {boxes.dtype}, expected floats, uint8 or signed integers")


def _check_boxes(function: str, name: str, boxes: Tensor) -> None:
    if boxes.dim() == 0 or boxes.shape[-1] != 4:
        raise TensorShapeError(f"{function}(): {name} is {list(boxes.shape)}, expected [..., 4]")


def _widened(function: str, boxes1: Tensor, boxes2: Tensor) -> tuple[Tensor, Tensor, torch.dtype]:
    """Return both in the type to compute in, and the result's type."""
    _check_boxes(function, "boxes1", boxes1)
    _check_boxes(function, "boxes2", boxes2)
    if boxes1.dtype == boxes2.dtype and boxes1.dtype in (torch.float32, torch.float64):
        return boxes1, boxes2, boxes1.dtype
    check_promotable(function, boxes1=boxes1, boxes2=boxes2)
    wide = torch.promote_types(boxes1.dtype, boxes2.dtype)
    result = torch.float64 if wide == torch.float64 else torch.float32
    inner = result if wide.is_floating_point else torch.float64
    return boxes1.to(inner), boxes2.to(inner), result


def _broadcast(function: str, first: Tensor, second: Tensor, kept: int) -> tuple[Tensor, Tensor]:
    """Expand all dimensions but the last ones, `kept`, to those of the other."""
    if first.shape[:-kept] == second.shape[:-kept]:
        return first, second
    check_storage(function, boxes1=first, boxes2=second)
    try:
        shape = torch.broadcast_shapes(first.shape[:-kept], second.shape[:-kept])
    except RuntimeError:
        raise TensorShapeError(
            f"{function}(): boxes1 is {list(first.shape)} and boxes2 {list(second.shape)}; all but the last "
            f"{'dimension' if kept == 1 else 'two dimensions'} must be equal or broadcast"
        ) from None
    return first.expand(*shape, *first.shape[-kept:]), second.expand(*shape, *second.shape[-kept:])


def _pair(function: str, boxes1: Tensor, boxes2: Tensor) -> tuple[Tensor, Tensor, torch.dtype]:
    """Return both [..., n, 4] in the type to compute in, with equal dimensions before these; and the result's type."""
    first, second, dtype = _widened(function, boxes1, boxes2)
    for name, boxes in (("boxes1", first), ("boxes2", second)):
        if boxes.dim() < 2:
            raise TensorShapeError(f"{function}(): {name} is {list(boxes.shape)}, expected [..., 4] of several boxes")
    return *_broadcast(function, first, second, 2), dtype
