"""An operator of this package's own: which objects boxes overlap most.

On a CPU, and wherever it is held to what it should be, it is the PyTorch code below; on a GPU, overlaps.cu, which has no
matrix of all overlaps in memory. `opsmith check opsmith_detection.models.overlaps` proves the two equal.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float32, Int64
from torch import Tensor

import opsmith
from opsmith.ops import box_iou

__all__ = ["best_overlaps"]


@opsmith.op(
    cuda="overlaps.cu", outputs=("highest", "index", "is_best"), nondifferentiable=("objects", "boxes"), batch="B"
)
def best_overlaps(
    objects: Float32[Tensor, "B G 4"], boxes: Float32[Tensor, "B N 4"], best_too: bool
) -> tuple[Float32[Tensor, "B N"], Int64[Tensor, "B N"], Bool[Tensor, "B N"]]:
    """Return of each box its highest overlap with an object of its image, and that object, the first of equal ones.

    With `best_too` also whether the box overlaps an object most of all boxes, and at all; otherwise that is False. NaN,
    which boxes of no area have with each other, is the highest, and leaves an object without a best box.
    """
    highest, index, marks = [], [], []
    for objects_of_image, boxes_of_image in zip(objects, boxes, strict=True):  # one matrix of overlaps at a time
        overlaps = box_iou(objects_of_image, boxes_of_image)
        most, place = overlaps.max(0)
        best = overlaps.amax(1, keepdim=True)
        is_best = (overlaps == torch.where(best > 0, best, torch.inf)).any(0)
        highest.append(most)
        index.append(place)
        marks.append(is_best if best_too else torch.zeros_like(is_best))
    return torch.stack(highest), torch.stack(index), torch.stack(marks)


@best_overlaps.examples
def _examples() -> list[dict[str, object]]:
    """Boxes of whole numbers, so that many overlaps are equal, and objects of which some are padding."""
    random = torch.Generator().manual_seed(0)
    calls: list[dict[str, object]] = []
    for images, count, boxes in ((2, 3, 40), (1, 150, 700), (3, 1, 5)):
        sides = []
        for number in (count, boxes):
            corner = torch.randint(0, 12, (images, number, 2), generator=random).float()
            sides.append(torch.cat([corner, corner + torch.randint(0, 8, (images, number, 2), generator=random)], -1))
        sides[0][:, count // 2 + 1 :] = 0
        calls += [{"objects": sides[0], "boxes": sides[1], "best_too": best_too} for best_too in (False, True)]
    return calls
