"""Times the operators on boxes, and pasted masks, against what detectors compose of PyTorch's operators.

    python benchmarks/boxes.py [--device cpu|cuda] [--page boxes|paste_masks] [--output benchmarks/results/boxes_gpu.json]

Overlaps: 300 queries with 50 targets (a matcher of DETR), 2,000 proposals with 50 targets, 100,000 anchors with 100
targets. Losses, formats and clipping: 1,000 and 200,000 boxes. Masks: 100 of 28 x 28, pasted into 800 x 1,066 (on the CPU
20 of them). The composition is timed as it is and compiled; masks also one by one, as torchvision pastes them. "backward"
is the gradient of all boxes, or of the masks.

Competitors take turns within a round, ratios are formed within a round, and all of them have been called before.
`difference` is the largest one between their results and ours, as a part of the largest of ours.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad

from opsmith.ops.boxes import (
    box_convert,
    box_iou,
    clip_boxes_to_image,
    generalized_box_iou,
    generalized_box_iou_loss,
)
from opsmith.ops.paste_masks import paste_binary_masks_in_image, paste_masks_in_image
from turns import compare_clocks, record

ROUNDS = 11
IMAGE = (800, 1066)

Function = Callable[..., Tensor]
Call = Callable[[], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Case:
    """A function of ours, the compositions of others by name, and the tensors it is called with."""

    function: str
    size: str
    phase: str
    ours: Function
    others: dict[str, Function]
    given: tuple[Tensor, ...]
    differentiable: tuple[int, ...]


def corners(count: int, device: str, seed: int = 0) -> Tensor:
    """Return boxes of 1 to 200 pixels in an image."""
    random = torch.Generator(device).manual_seed(seed)
    corner = 800 * torch.rand(count, 2, generator=random, device=device)
    return torch.cat([corner, corner + 1 + 199 * torch.rand(count, 2, generator=random, device=device)], 1)


def composed_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Intersection over union of all pairs."""
    intersection, union = _shared(boxes1[:, None], boxes2)
    return intersection / union


def composed_giou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """The generalized one."""
    intersection, union = _shared(boxes1[:, None], boxes2)
    around = torch.max(boxes1[:, None, 2:], boxes2[:, 2:]) - torch.min(boxes1[:, None, :2], boxes2[:, :2])
    enclosing = around.clamp(min=0).prod(-1)
    return intersection / union - (enclosing - union) / enclosing


def composed_loss(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """1 minus the generalized overlap of each pair, summed."""
    intersection, union = _shared(boxes1, boxes2)
    around = torch.max(boxes1[:, 2:], boxes2[:, 2:]) - torch.min(boxes1[:, :2], boxes2[:, :2])
    enclosing = around.prod(-1)
    return (1 - intersection / (union + 1e-7) + (enclosing - union) / (enclosing + 1e-7)).sum()


def _shared(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    sides = (torch.min(first[..., 2:], second[..., 2:]) - torch.max(first[..., :2], second[..., :2])).clamp(min=0)
    intersection = sides[..., 0] * sides[..., 1]
    areas = [(one[..., 2] - one[..., 0]) * (one[..., 3] - one[..., 1]) for one in (first, second)]
    return intersection, areas[0] + areas[1] - intersection


def composed_convert(boxes: Tensor) -> Tensor:
    """From corners to the middle and lengths."""
    x1, y1, x2, y2 = boxes.unbind(-1)
    return torch.stack([(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1], -1)


def composed_clip(boxes: Tensor) -> Tensor:
    """Clip x and y apart."""
    x, y = boxes[..., 0::2].clamp(0, IMAGE[1]), boxes[..., 1::2].clamp(0, IMAGE[0])
    return torch.stack([x, y], -1).reshape(boxes.shape)


def one_by_one(masks: Tensor, boxes: Tensor) -> Tensor:
    """Paste masks one after another: each is resized to its box, and copied into an image of zeros."""
    images = masks.new_zeros(masks.shape[0], 1, *IMAGE)
    middle, half = (boxes[:, 2:] + boxes[:, :2]) * 0.5, (boxes[:, 2:] - boxes[:, :2]) * 0.5
    half = half * ((masks.shape[3] + 2) / masks.shape[3])
    edges = torch.cat([middle - half, middle + half], 1).to(torch.int64).tolist()
    for index, (left, top, right, bottom) in enumerate(edges):
        size = (max(bottom - top + 1, 1), max(right - left + 1, 1))
        resized = interpolate(pad(masks[index : index + 1], (1,) * 4), size, mode="bilinear", align_corners=False)
        y, x = slice(max(top, 0), min(bottom + 1, IMAGE[0])), slice(max(left, 0), min(right + 1, IMAGE[1]))
        images[index, 0, y, x] = resized[0, 0, y.start - top : y.stop - top, x.start - left : x.stop - left]
    return images


def composed_masks(masks: Tensor, boxes: Tensor) -> Tensor:
    """Paste masks all at once, by gathering rows and columns."""
    width, padded = masks.shape[3], pad(masks[:, 0], (1, 2, 1, 2))
    for axis, pixels in ((1, IMAGE[0]), (0, IMAGE[1])):
        low, high = boxes[:, axis, None], boxes[:, axis + 2, None]
        half = (high - low) * 0.5 * ((width + 2) / width)
        first, last = ((high + low) * 0.5 - half).trunc(), ((high + low) * 0.5 + half).trunc()
        position = torch.arange(pixels, device=boxes.device)
        place = ((position - first + 0.5) * ((width + 2) / (last - first + 1)) - 0.5).clamp(0, width + 1)
        index = place.floor()[:, :, None].to(torch.int64).expand(-1, -1, padded.shape[2])
        share = (place - place.floor())[:, :, None]
        lines = (1 - share) * padded.gather(1, index) + share * padded.gather(1, index + 1)
        inside = ((position >= first) & (position <= last))[:, :, None]
        padded = torch.where(inside, lines, 0.0).transpose(1, 2)
    return padded[:, None]


def _with_compiled(function: Function) -> dict[str, Function]:
    return {"composition": function, "composition, compiled": torch.compile(function, dynamic=False)}


def box_cases(device: str) -> Iterator[Case]:
    """Yield the cases of docs/operators/boxes.md."""
    for first, second in ((300, 50), (2000, 50), (100_000, 100)):
        given = corners(first, device), corners(second, device, 1)
        size = f"{first:,} x {second}"
        for phase in ("forward", "backward"):
            iou, giou = _with_compiled(composed_iou), _with_compiled(composed_giou)
            yield Case("box_iou", size, phase, box_iou, iou, given, (0, 1))
            yield Case("generalized_box_iou", size, phase, generalized_box_iou, giou, given, (0, 1))
    for count in (1000, 200_000):
        given = corners(count, device), corners(count, device, 1)
        for phase in ("forward", "backward"):
            yield Case(
                "generalized_box_iou_loss",
                f"{count:,}",
                phase,
                lambda one, other: generalized_box_iou_loss(one, other, "sum"),
                _with_compiled(composed_loss),
                given,
                (0,),
            )
        for name, ours, other in (
            ("box_convert", lambda one: box_convert(one, "xyxy", "cxcywh"), composed_convert),
            ("clip_boxes_to_image", lambda one: clip_boxes_to_image(one, IMAGE), composed_clip),
        ):
            yield Case(name, f"{count:,}", "forward", ours, _with_compiled(other), given[:1], ())


def mask_cases(device: str) -> Iterator[Case]:
    """Yield the cases of docs/operators/paste_masks.md."""
    count = 100 if device == "cuda" else 20
    masks = torch.rand(count, 1, 28, 28, generator=torch.Generator(device).manual_seed(0), device=device)
    boxes = corners(count, device, 1).clamp(max=799.0)
    size = f"{count} of 28 x 28"
    for phase in ("forward", "backward"):
        others = {**_with_compiled(composed_masks), "mask by mask": one_by_one}
        ours: Function = lambda one, other: paste_masks_in_image(one, other, IMAGE)  # noqa: E731
        yield Case("paste_masks_in_image", size, phase, ours, others, (masks, boxes), (0,))

    def binary(paste: Function) -> Function:
        return lambda one, other: paste(one, other) >= 0.5

    others = {**_with_compiled(binary(composed_masks)), "mask by mask": binary(one_by_one)}
    threshold: Function = lambda one, other: paste_binary_masks_in_image(one, other, IMAGE)  # noqa: E731
    yield Case("paste_binary_masks_in_image", size, "forward", threshold, others, (masks, boxes), ())


def _prepared(function: Function, case: Case) -> Call:
    if case.phase == "forward":
        return lambda: (function(*case.given),)
    leaves = list(case.given)
    for index in case.differentiable:
        leaves[index] = leaves[index].clone().requires_grad_()
    out = function(*leaves)
    outer = torch.randn(out.shape, generator=torch.Generator(out.device).manual_seed(2), device=out.device)
    needed = [leaves[index] for index in case.differentiable]
    return lambda: torch.autograd.grad(out, needed, outer, retain_graph=True)


def measured(device: str, page: str) -> Iterator[dict[str, Any]]:
    """Yield a row for each case."""
    for case in (box_cases if page == "boxes" else mask_cases)(device):
        calls = {name: _prepared(one, case) for name, one in {"opsmith": case.ours, **case.others}.items()}
        results = {name: call() for name, call in calls.items()}
        row: dict[str, Any] = {
            "function": case.function,
            "size": case.size,
            "dtype": "float32",
            "phase": case.phase,
        }
        row |= compare_clocks(calls, range(ROUNDS), device, uncaptured={"mask by mask"})
        ours = results.pop("opsmith")
        row["difference"] = {name: max(map(_difference, ours, theirs)) for name, theirs in results.items()}
        yield row
        torch._dynamo.reset()


def _difference(ours: Tensor, theirs: Tensor) -> float:
    return float((ours.double() - theirs.double()).abs().max() / ours.double().abs().max())


def _summary(row: dict[str, Any]) -> str:
    faster = ", ".join(f"{name} {times['median']:.2f}x" for name, times in row["times_faster"].items())
    ours = row["seconds"]["opsmith"]["median"] * 1e6
    return f"{row['function']:28} {row['size']:14} {row['phase']:9} {ours:10.1f} us   {faster}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--page", choices=("boxes", "paste_masks"), default="boxes")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    record(measured(given.device, given.page), given.device, given.output, _summary)


if __name__ == "__main__":
    main()
