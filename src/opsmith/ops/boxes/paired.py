"""Defines the generalized IoU loss of boxes and their targets: the operator, and its gradient."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith
from opsmith.ops.boxes.formats import ROUND_EACH
from opsmith.ops.boxes.pairwise import Needed

__all__ = ["giou_loss_sum", "giou_loss_sum_backward", "giou_losses", "giou_losses_backward"]

_DTYPES = (torch.float32, torch.float64)


@opsmith.op(cpu=opsmith.view("paired.cpp", flags=ROUND_EACH), cuda="paired.cu", outputs="losses", dtypes=_DTYPES)
def giou_losses(boxes1: Float[Tensor, "*n 4"], boxes2: Float[Tensor, "*n 4"], eps: float = 1e-7) -> Float[Tensor, "*n"]:
    """1 minus the generalized IoU of each pair, with `eps` added to divisors. Call it through `generalized_box_iou_loss`."""
    shared = torch.minimum(boxes1[..., 2:], boxes2[..., 2:]) - torch.maximum(boxes1[..., :2], boxes2[..., :2])
    intersection = torch.where((shared > 0).all(-1), shared[..., 0] * shared[..., 1], 0.0)
    union = _area(boxes1) + _area(boxes2) - intersection
    around = torch.maximum(boxes1[..., 2:], boxes2[..., 2:]) - torch.minimum(boxes1[..., :2], boxes2[..., :2])
    enclosing = around[..., 0] * around[..., 1]
    return 1 - (intersection / (union + eps) - (enclosing - union) / (enclosing + eps))


@giou_losses.backward(cpu=opsmith.view("paired.cpp", flags=ROUND_EACH), cuda="paired.cu", dtypes=_DTYPES)
def giou_losses_backward(  # type: ignore[empty-body]
    grad_losses: Float[Tensor, "*n"],
    boxes1: Float[Tensor, "*n 4"],
    boxes2: Float[Tensor, "*n 4"],
    eps: float,
    needed: Needed,
) -> tuple[Float[Tensor, "*n 4"], Float[Tensor, "*n 4"]]:
    """The gradients, from the boxes again. Where two edges are equal each has half of the gradient."""
    ...


@opsmith.op(cpu=opsmith.view("paired.cpp", flags=ROUND_EACH), cuda="paired.cu", outputs="loss", dtypes=_DTYPES)
def giou_loss_sum(
    boxes1: Float[Tensor, "*n 4"], boxes2: Float[Tensor, "*n 4"], eps: float = 1e-7, mean: bool = False
) -> Float[Tensor, ""]:
    """The sum of `giou_losses` over all pairs, or with `mean` that divided by their number; NaN if there are none."""
    losses = giou_losses.reference(boxes1, boxes2, eps)
    total: Tensor = losses.mean() if mean else losses.sum()
    return total


@giou_loss_sum.backward(cpu=opsmith.view("paired.cpp", flags=ROUND_EACH), cuda="paired.cu", dtypes=_DTYPES)
def giou_loss_sum_backward(  # type: ignore[empty-body]
    grad_loss: Float[Tensor, ""],
    boxes1: Float[Tensor, "*n 4"],
    boxes2: Float[Tensor, "*n 4"],
    eps: float,
    mean: bool,
    needed: Needed,
) -> tuple[Float[Tensor, "*n 4"], Float[Tensor, "*n 4"]]:
    """The gradients, as those of `giou_losses`."""
    ...


@giou_losses.examples
def _examples() -> list[dict[str, object]]:
    """Pairs of boxes that overlap, that do not, and that are equal."""
    return _pairs()


@giou_loss_sum.examples
def _sum_examples() -> list[dict[str, object]]:
    """The same, added up and averaged."""
    return [{**call, "mean": mean} for call in _pairs() for mean in (False, True)]


def _pairs() -> list[dict[str, object]]:
    random = torch.Generator().manual_seed(0)
    calls: list[dict[str, object]] = []
    for sizes in ((700,), (2, 9)):
        sides = []
        for _ in range(2):
            corner = 6 * torch.rand(*sizes, 2, generator=random)
            sides.append(torch.cat([corner, corner + 1 + 6 * torch.rand(*sizes, 2, generator=random)], -1))
        sides[1][..., :3, :] = sides[0][..., :3, :]
        calls.append({"boxes1": sides[0], "boxes2": sides[1]})
    return calls


def _area(boxes: Tensor) -> Tensor:
    sides = boxes[..., 2:] - boxes[..., :2]
    return sides[..., 0] * sides[..., 1]
