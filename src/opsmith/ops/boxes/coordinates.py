"""Defines the operators that change the coordinates of each box by itself: its format, and clipping to an image."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith
from opsmith.ops.boxes.formats import Format, convert

__all__ = ["clipped_boxes", "clipped_boxes_backward", "converted_boxes", "converted_boxes_backward"]


@opsmith.op(cpu="coordinates.cpp", cuda="coordinates.cu", outputs="converted")
def converted_boxes(boxes: Float[Tensor, "*n 4"], in_fmt: Format, out_fmt: Format) -> Float[Tensor, "*n 4"]:
    """Boxes in another format. Call it through `box_convert`."""
    return convert(_wide(boxes), in_fmt, out_fmt).to(boxes.dtype)


@converted_boxes.backward(cpu="coordinates.cpp", cuda="coordinates.cu")
def converted_boxes_backward(
    grad_converted: Float[Tensor, "*n 4"], in_fmt: Format, out_fmt: Format
) -> Float[Tensor, "*n 4"]:
    """The gradient: the transpose of a linear map."""
    return convert(_wide(grad_converted), in_fmt, out_fmt, transposed=True).to(grad_converted.dtype)


@opsmith.op(cpu="coordinates.cpp", cuda="coordinates.cu", outputs="clipped")
def clipped_boxes(boxes: Float[Tensor, "*n 4"], height: int, width: int) -> Float[Tensor, "*n 4"]:
    """Boxes whose x lie from 0 to the width, and y from 0 to the height. Call it through `clip_boxes_to_image`."""
    wide = _wide(boxes)
    limits = torch.tensor([width, height], dtype=wide.dtype, device=wide.device).repeat(2)
    return wide.clamp(torch.zeros_like(limits), limits).to(boxes.dtype)


@clipped_boxes.backward(cpu="coordinates.cpp", cuda="coordinates.cu")
def clipped_boxes_backward(  # type: ignore[empty-body]
    grad_clipped: Float[Tensor, "*n 4"], boxes: Float[Tensor, "*n 4"], height: int, width: int
) -> Float[Tensor, "*n 4"]:
    """The gradient of the coordinates that clipping leaves as they are; the others have none."""
    ...


@converted_boxes.examples
def _conversions() -> list[dict[str, object]]:
    """Boxes in every pair of formats."""
    boxes = 100 * torch.rand(300, 4, generator=torch.Generator().manual_seed(0))
    formats = ("xyxy", "xywh", "cxcywh")
    return [{"boxes": boxes, "in_fmt": one, "out_fmt": other} for one in formats for other in formats]


@clipped_boxes.examples
def _in_and_outside() -> list[dict[str, object]]:
    """Boxes inside of an image, across its edges, and on them."""
    boxes = 50 * torch.rand(300, 4, generator=torch.Generator().manual_seed(0)) - 10
    boxes[:2] = torch.tensor([[0.0, 0.0, 17.0, 33.0], [17.0, 33.0, 0.0, 0.0]])
    return [{"boxes": boxes, "height": 33, "width": 17}]


def _wide(boxes: Tensor) -> Tensor:
    return boxes if boxes.dtype == torch.float64 else boxes.float()
