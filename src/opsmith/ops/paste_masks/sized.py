"""Defines the operators behind `paste_masks_in_image` with all sizes as arguments, and the transpose of pasting."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Float32
from torch import Tensor

import opsmith
from opsmith.errors import ArgumentValueError

__all__ = ["Pasting", "pasted_binary_masks", "pasted_masks", "pasted_masks_backward"]

# Without it g++ would fuse a product into a sum where the processor can, and a box's edge might fall on another pixel.
_FLAGS = ("-ffp-contract=off",)
_FARTHEST = float(1 << 29)  # in pixels; as in paste_masks.h


@dataclass(frozen=True)
class Pasting:
    """The sizes of masks and images, by how many pixels masks are padded, and whether boxes stay as they are."""

    mask_height: int
    mask_width: int
    height: int
    width: int
    padding: int = 1
    aligned: bool = False


# The masks' sizes are arguments, although the tensor has them: so pasting and its transpose can give each other all that
# they need, and a gradient keeps the boxes alone.
@opsmith.op(
    cpu=opsmith.view("paste_masks.cpp", flags=_FLAGS),
    cuda="paste_masks.cu",
    outputs="images",
    nondifferentiable="boxes",
    batch="N",
)
def pasted_masks(
    masks: Float[Tensor, "N mask_height mask_width"], boxes: Float32[Tensor, "N 4"], pasting: Pasting
) -> Float[Tensor, "N height width"]:
    """Resize each mask to its box, bilinearly, and paste it into an image of zeros. Call it through `paste_masks_in_image`.

    A mask gets a border of `padding` zeros, and its box grows with it. The box's edges are truncated to whole pixels, and
    both are inside. A box with an edge that is NaN or too far off is pasted nowhere. With `aligned` a box stays as it is,
    and the border is one zero.
    """
    return _resized(masks, boxes, pasting).to(masks.dtype)


@pasted_masks.backward(
    cpu=opsmith.view("paste_masks.cpp", flags=_FLAGS), cuda="paste_masks.cu", nondifferentiable="boxes"
)
def pasted_masks_backward(
    grad_images: Float[Tensor, "N height width"], boxes: Float32[Tensor, "N 4"], pasting: Pasting
) -> Float[Tensor, "N mask_height mask_width"]:
    """The gradient of the masks: the transpose of a linear map. Sums are made in float32 or wider."""
    _check(pasting)
    wide = _wide(grad_images)
    if pasting.mask_height == 0 or pasting.mask_width == 0:
        return grad_images.new_zeros(grad_images.shape[0], pasting.mask_height, pasting.mask_width)
    across, down = _taps(boxes, pasting, 0, wide), _taps(boxes, pasting, 1, wide)
    wide = torch.where(down[2][:, :, None] & across[2][:, None], wide, 0.0)
    padding = _border(pasting)
    columns = _added(wide.transpose(1, 2), across, pasting.mask_width, padding)  # [N mask_width height]
    return _added(columns.transpose(1, 2), down, pasting.mask_height, padding).to(grad_images.dtype)


pasted_masks_backward.gradient_is(pasted_masks, masks="grad_grad_masks", images="grad_grad_images")


@opsmith.op(cpu=opsmith.view("paste_masks.cpp", flags=_FLAGS), cuda="paste_masks.cu", outputs="images", batch="N")
def pasted_binary_masks(
    masks: Float[Tensor, "N mask_height mask_width"],
    boxes: Float32[Tensor, "N 4"],
    pasting: Pasting,
    threshold: float = 0.5,
) -> Bool[Tensor, "N height width"]:
    """Whether `pasted_masks` is at least the threshold, compared before it is rounded to 16 bits."""
    images = _resized(masks, boxes, pasting)
    return images >= torch.tensor(threshold, dtype=images.dtype, device=images.device)


@pasted_masks.examples
def _examples() -> list[dict[str, object]]:
    """Boxes inside of the image, across its edges, and outside; smaller than a pixel, inside out, and with a NaN."""
    random = torch.Generator().manual_seed(0)
    boxes = torch.tensor(
        [
            [3.0, 2.0, 11.0, 9.0],
            [-6.5, -3.2, 8.7, 30.0],
            [10.2, 4.1, 40.0, 60.0],
            [5.0, 5.0, 5.2, 5.1],
            [9.0, 9.0, 4.0, 2.0],
            [50.0, 50.0, 60.0, 60.0],
            [float("nan"), 0.0, 5.0, 5.0],
            [-100.0, -100.0, 200.0, 150.0],
        ]
    )
    calls: list[dict[str, object]] = []
    for (height, width), size, padding in (((7, 7), (23, 19), 1), ((5, 3), (8, 16), 0), ((1, 4), (30, 7), 2)):
        masks = torch.rand(8, height, width, generator=random)
        sizes = {"mask_height": height, "mask_width": width, "height": size[0], "width": size[1], "padding": padding}
        calls += [{"masks": masks, "boxes": boxes, **sizes, "aligned": aligned} for aligned in (False, True)]
    return calls


@pasted_binary_masks.examples
def _binary_examples() -> list[dict[str, object]]:
    return [
        {**one, "threshold": threshold}
        for one, threshold in zip(_examples(), (0.5, 0.5, 0.25, 0.25, 0.0, 0.0), strict=True)
    ]


def _wide(masks: Tensor) -> Tensor:
    return masks if masks.dtype == torch.float64 else masks.float()


def _check(pasting: Pasting) -> None:
    if pasting.padding < 0:
        raise ArgumentValueError(f"masks are padded by 0 pixels or more; found padding {pasting.padding}")


def _border(pasting: Pasting) -> int:
    return 1 if pasting.aligned else pasting.padding


def _resized(masks: Tensor, boxes: Tensor, pasting: Pasting) -> Tensor:
    """Paste masks in the type that is computed in."""
    _check(pasting)
    wide = _wide(masks)
    if pasting.mask_height == 0 or pasting.mask_width == 0:
        return wide.new_zeros(wide.shape[0], pasting.height, pasting.width)
    across, down = _taps(boxes, pasting, 0, wide), _taps(boxes, pasting, 1, wide)
    near, far = _border(pasting), _border(pasting) + 1  # the last pixel has a neighbour of weight 0
    rows = _interpolated(torch.nn.functional.pad(wide, (near, far, near, far)), down)
    images = _interpolated(rows.transpose(1, 2), across).transpose(1, 2)
    return torch.where(down[2][:, :, None] & across[2][:, None], images, 0.0)


def _interpolated(lines: Tensor, taps: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Return what lies between two of the lines [N K W] for each tap [N T]: [N T W]."""
    low, share = taps[0][:, :, None].expand(-1, -1, lines.shape[2]), taps[1][:, :, None]
    return (1 - share) * lines.gather(1, low) + share * lines.gather(1, low + 1)


def _added(lines: Tensor, taps: tuple[Tensor, Tensor, Tensor], size: int, padding: int) -> Tensor:
    """Add up lines [N T W] in the two that each is between, [N size W]: the transpose of `_interpolated`."""
    low, share = taps[0][:, :, None].expand(-1, -1, lines.shape[2]), taps[1][:, :, None]
    sums = lines.new_zeros(lines.shape[0], size + 2 * padding + 1, lines.shape[2])
    sums = sums.scatter_add(1, low, (1 - share) * lines).scatter_add(1, low + 1, share * lines)
    return sums[:, padding : padding + size]


def _taps(boxes: Tensor, pasting: Pasting, axis: int, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return, for each of the image's pixels along an axis, [N, pixels]: the pixel of the padded mask before it, what
    the next one weighs, and whether it is in the box.
    """
    size, pixels = (pasting.mask_width, pasting.width) if axis == 0 else (pasting.mask_height, pasting.height)
    position = torch.arange(pixels, device=boxes.device)
    if pasting.aligned:
        return _aligned_taps(boxes, size, axis, position, like)
    first, last, is_near = _edges(boxes, pasting, axis)
    padded = size + 2 * pasting.padding
    length = (last - first + 1).clamp(min=1)
    inside = (position >= first[:, None]) & (position <= last[:, None]) & is_near[:, None]
    scale = (padded / length.to(like.dtype))[:, None]
    place = ((position - first[:, None]).to(like.dtype) + 0.5) * scale - 0.5
    return *_split(place, padded, inside), inside


def _aligned_taps(boxes: Tensor, size: int, axis: int, position: Tensor, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return taps where the image's pixels are squares, and a mask's fill its box."""
    is_near = (boxes[:, :2] >= -_FARTHEST) & (boxes[:, 2:] <= _FARTHEST) & (boxes[:, :2] < boxes[:, 2:])
    inside = is_near.all(1)[:, None].expand(-1, len(position))
    low, high = (
        torch.where(inside[:, :1], boxes[:, [axis, axis + 2]], boxes.new_tensor([0.0, 1.0])).to(like.dtype).unbind(1)
    )
    first = low.trunc()
    offset, scale = 0.5 - (low - first), size / (high - low)
    place = ((position - first[:, None].to(torch.int64)).to(like.dtype) + offset[:, None]) * scale[:, None] + 0.5
    return *_split(place, size + 2, inside), inside


def _split(place: Tensor, padded: int, inside: Tensor) -> tuple[Tensor, Tensor]:
    """Return the pixels before places in a padded mask, and how far these are from there."""
    place = torch.where(inside, place.clamp(0, padded - 1), 0.0)
    low = place.floor()
    return low.to(torch.int64), place - low


def _edges(boxes: Tensor, pasting: Pasting, axis: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the first and the last pixel of each box along an axis, and which boxes are not too far off."""
    edges = []
    for one in (0, 1):
        low, high = boxes[:, one], boxes[:, one + 2]
        middle, half = (high + low) * 0.5, (high - low) * 0.5
        grown = half * ((pasting.mask_width + 2 * pasting.padding) / pasting.mask_width)
        edges.append(torch.stack([middle - grown, middle + grown]))
    is_near = (torch.cat(edges).abs() <= _FARTHEST).all(0)
    first, last = torch.where(is_near, edges[axis], 0.0).trunc().to(torch.int64)
    return first, last, is_near
