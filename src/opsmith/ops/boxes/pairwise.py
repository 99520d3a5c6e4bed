"""Defines the overlaps of each box of one set with each of another: the operator, and its gradient."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith
from opsmith.ops.boxes.formats import ROUND_EACH, Format, as_corners

__all__ = ["Needed", "box_overlaps", "box_overlaps_backward"]

_DTYPES = (torch.float32, torch.float64)


@dataclass(frozen=True)
class Needed:
    """Which gradients are needed; the others have no elements."""

    needs_grad_boxes1: bool
    needs_grad_boxes2: bool


@opsmith.op(cpu=opsmith.view("pairwise.cpp", flags=ROUND_EACH), cuda="pairwise.cu", outputs="overlaps", dtypes=_DTYPES)
def box_overlaps(
    boxes1: Float[Tensor, "*batch N 4"],
    boxes2: Float[Tensor, "*batch M 4"],
    fmt: Format,
    generalized: bool,
) -> Float[Tensor, "*batch N M"]:
    """Intersection over union of all pairs, or its generalization. Call it through `box_iou` and `generalized_box_iou`.

    The generalization subtracts the part of the enclosing box that neither covers (Rezatofighi et al., "Generalized
    Intersection over Union", https://arxiv.org/abs/1902.09630).
    """
    first, second = as_corners(boxes1, fmt)[..., :, None, :], as_corners(boxes2, fmt)[..., None, :, :]
    shared = torch.minimum(first[..., 2:], second[..., 2:]) - torch.maximum(first[..., :2], second[..., :2])
    intersection = _product(shared.clamp(min=0))
    union = _product(first[..., 2:] - first[..., :2]) + _product(second[..., 2:] - second[..., :2]) - intersection
    overlaps = intersection / union
    if not generalized:
        return overlaps
    around = torch.maximum(first[..., 2:], second[..., 2:]) - torch.minimum(first[..., :2], second[..., :2])
    # Adding 0 makes 0 of -0, which `clamp` keeps: what is divided by it would change its sign.
    enclosing = _product(around.clamp(min=0) + 0.0)
    # Not (enclosing - union) / enclosing, whose gradient is a difference of two numbers that are nearly equal.
    return overlaps - (1 - union / enclosing)


@box_overlaps.backward(cpu=opsmith.view("pairwise.cpp", flags=ROUND_EACH), cuda="pairwise.cu", dtypes=_DTYPES)
def box_overlaps_backward(  # type: ignore[empty-body]
    grad_overlaps: Float[Tensor, "*batch N M"],
    boxes1: Float[Tensor, "*batch N 4"],
    boxes2: Float[Tensor, "*batch M 4"],
    fmt: Format,
    generalized: bool,
    needed: Needed,
) -> tuple[Float[Tensor, "*batch N 4"], Float[Tensor, "*batch M 4"]]:
    """The gradients, from the boxes again: each is a sum over the boxes of the other set, in a fixed order.

    Where two edges are equal each has half of the gradient, as in torch.maximum.
    """
    ...


@box_overlaps.examples
def _examples() -> list[dict[str, object]]:
    """Boxes that overlap, touch, contain one another and are equal, in each format, alone and in a batch."""
    random = torch.Generator().manual_seed(0)
    calls: list[dict[str, object]] = []
    for shape, other, fmt in (((19,), (70,), "xyxy"), ((2, 33), (2, 5), "xywh"), ((3, 1), (3, 8), "cxcywh")):
        sides = []
        for sizes in (shape, other):
            corner = 8 * torch.rand(*sizes, 2, generator=random)
            sides.append(torch.cat([corner, 1 + 6 * torch.rand(*sizes, 2, generator=random)], -1))
        if fmt == "xyxy":
            sides = [as_corners(side, "xywh") for side in sides]
            sides[1][:4] = sides[0][:4]
        calls += [{"boxes1": sides[0], "boxes2": sides[1], "fmt": fmt, "generalized": flag} for flag in (False, True)]
    return calls


def _product(lengths: Tensor) -> Tensor:
    return lengths[..., 0] * lengths[..., 1]
