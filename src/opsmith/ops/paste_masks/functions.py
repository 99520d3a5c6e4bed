"""Defines paste_masks_in_image as torchvision has it, and the same with a threshold."""

from __future__ import annotations

import torch
from torch import Tensor

from opsmith.errors import ArgumentValueError
from opsmith.ops._arguments import (
    TensorShapeError,
    as_int,
    check_flags,
    check_ints,
    check_numbers,
    check_tensors,
    read_size,
)
from opsmith.ops.paste_masks.sized import Pasting, pasted_binary_masks, pasted_masks

__all__ = ["paste_binary_masks_in_image", "paste_masks_in_image"]


def paste_masks_in_image(
    masks: Tensor, boxes: Tensor, img_shape: tuple[int, int], padding: int = 1, *, aligned: bool = False
) -> Tensor:
    """Return masks of boxes as masks of an image, [N, 1, height, width].

    `torchvision.models.detection.roi_heads.paste_masks_in_image`: each mask is resized to its box, bilinearly, and pasted
    into an image of zeros.

    Parameters
    ----------
    masks
        [N, 1, h, w]; float16, bfloat16, float32 or float64. The arithmetic is float32 or wider.
    boxes
        [N, 4] as (x1, y1, x2, y2). They are taken as float32, and have no gradient.
    img_shape
        (height, width) of the image.
    padding
        How many zeros surround a mask before it is resized. Its box grows around its middle by (w + 2 padding) / w.
    aligned
        Whether a box stays as it is, as in detectron2: pixels are squares, a mask's fill its box, and `padding` does not
        matter. Otherwise the edges of the grown box are truncated towards zero, and the pixels of both edges belong to it,
        which makes masks up to a pixel larger than they are.

    A box with a NaN, or farther off than 2^29 pixels, is pasted nowhere, and so is one inside out. The gradient of the
    masks, of any order, is the same in each run.

    Raises TensorShapeError for masks that are not [N, 1, h, w] and boxes that are not [N, 4]; ArgumentValueError for a
    negative padding or size; DtypeError for masks of another type; ArgumentTypeError for other arguments.
    """
    dense, edges, pasting = _read("paste_masks_in_image", masks, boxes, img_shape, padding, aligned)
    images: Tensor = pasted_masks(dense, edges, pasting)
    return images[:, None]


def paste_binary_masks_in_image(
    masks: Tensor,
    boxes: Tensor,
    img_shape: tuple[int, int],
    threshold: float = 0.5,
    padding: int = 1,
    *,
    aligned: bool = False,
) -> Tensor:
    """Return where `paste_masks_in_image` is at least `threshold`: bool [N, 1, height, width].

    No image of floats is made in between. Values of 16-bit masks are compared in float32, before they are rounded.
    Exceptions are those of `paste_masks_in_image`.
    """
    check_numbers("paste_binary_masks_in_image", threshold=threshold)
    dense, edges, pasting = _read("paste_binary_masks_in_image", masks, boxes, img_shape, padding, aligned)
    images: Tensor = pasted_binary_masks(dense, edges, pasting, threshold)
    return images[:, None]


def _read(
    function: str, masks: Tensor, boxes: Tensor, img_shape: tuple[int, int], padding: int, aligned: bool
) -> tuple[Tensor, Tensor, Pasting]:
    check_tensors(function, masks=masks, boxes=boxes)
    check_ints(function, padding=padding)
    check_flags(function, aligned=aligned)
    (height, width), padding = read_size(function, "img_shape", img_shape), as_int(padding)
    if height < 0 or width < 0 or padding < 0:
        raise ArgumentValueError(
            f"{function}(): img_shape is ({height}, {width}) and padding {padding}, expected 0 or more"
        )
    if masks.dim() != 4 or masks.shape[1] != 1:
        raise TensorShapeError(f"{function}(): masks is {list(masks.shape)}, expected [N, 1, h, w]")
    if boxes.dim() != 2 or boxes.shape[1] != 4 or boxes.shape[0] != masks.shape[0]:
        raise TensorShapeError(
            f"{function}(): boxes is {list(boxes.shape)}, expected [{masks.shape[0]}, 4], a box for each mask"
        )
    edges = boxes.detach().to(torch.float32)
    return masks[:, 0], edges, Pasting(masks.shape[2], masks.shape[3], height, width, padding, bool(aligned))
