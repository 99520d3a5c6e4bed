"""Defines roi_pool with all sizes as arguments, and its gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float32, Int32
from torch import Tensor

import opsmith
from opsmith.errors import ArgumentValueError
from opsmith.ops._boxes.boxes import edges_and_images, example_boxes

__all__ = ["ImageSizes", "PoolSizes", "roi_pool_backward", "roi_pool_sized"]

_MOST_PIXELS = (1 << 31) - 1  # a bin keeps its pixel in 32 bits


@dataclass(frozen=True)
class PoolSizes:
    """The sizes of images and results, and what boxes are multiplied with to be in pixels."""

    images: int
    height: int
    width: int
    out_height: int
    out_width: int
    spatial_scale: float = 1.0


@dataclass(frozen=True)
class ImageSizes:
    """The sizes of images, and what boxes are multiplied with to be in pixels."""

    images: int
    height: int
    width: int
    spatial_scale: float


# The images' sizes are arguments, although the tensor has them: the gradient needs them, and keeps no features for that.
@opsmith.op(
    cpu="roi_pool.cpp",
    cuda="roi_pool.cu",
    outputs=("out", "argmax"),
    saved="argmax",
    nondifferentiable="boxes",
    preserve_format={"out": "features", "argmax": "features"},
    batch="C",
)
def roi_pool_sized(
    features: Float[Tensor, "images C height width"],
    boxes: Float32[Tensor, "K 5"],
    bins: PoolSizes,
    needs_argmax: bool = False,
) -> tuple[Float[Tensor, "K C out_height out_width"], Int32[Tensor, "K C out_height out_width"]]:
    """The largest feature of each bin of each box, and its pixel, counted row by row. Call it through `roi_pool`.

    A bin is a rectangle, so the largest of each row is found first, and of these the largest. A bin without pixels has 0
    and the pixel -1. The pixels are for the gradient alone.
    """
    _check_pixels(bins.height, bins.width)
    shape = (boxes.shape[0], features.shape[1], bins.out_height, bins.out_width)
    if features.numel() == 0 or 0 in shape:
        return features.new_zeros(shape), torch.full(shape, -1, dtype=torch.int32, device=features.device)
    edges, image, good = edges_and_images(boxes, bins.images, bins.spatial_scale)
    rows = _members(edges[:, 1], edges[:, 3], bins.height, bins.out_height) & good[:, None, None]
    columns = _members(edges[:, 0], edges[:, 2], bins.width, bins.out_width)
    own = features[image]
    in_row, column = _largest(own[:, :, :, None, :], columns[:, None, None])  # [K C height out_width]
    largest, row = _largest(in_row.transpose(2, 3)[:, :, None], rows[:, None, :, None])  # [K C out_height out_width]
    is_empty = ~(rows.any(2)[:, :, None] & columns.any(2)[:, None])[:, None]
    out = torch.where(is_empty, 0, largest)
    if not needs_argmax:
        return out, features.new_empty(0, dtype=torch.int32)
    pixel = (
        row * bins.width
        + column.transpose(2, 3)[:, :, None].expand(-1, -1, bins.out_height, -1, -1).gather(4, row[..., None])[..., 0]
    )
    return out, torch.where(is_empty, -1, pixel).to(torch.int32)


@roi_pool_sized.backward(
    cpu="roi_pool.cpp",
    cuda="roi_pool.cu",
    nondifferentiable="boxes",
    preserve_format={"grad_features": "grad_out"},
)
def roi_pool_backward(
    grad_out: Float[Tensor, "K C out_height out_width"],
    boxes: Float32[Tensor, "K 5"],
    argmax: Int32[Tensor, "K C out_height out_width"],
    at: ImageSizes,
) -> Float[Tensor, "images C height width"]:
    """The gradient of a bin is that of its largest pixel, which `argmax` says. Sums are made in float32 or wider.

    What `argmax` says is what the forward of these boxes has found: kernels need not look for it outside of its bin.
    """
    _check_pixels(at.height, at.width)
    wide = torch.float64 if grad_out.dtype == torch.float64 else torch.float32
    channels = grad_out.shape[1]
    _, image, good = (one[..., None, None, None] for one in edges_and_images(boxes, at.images, at.spatial_scale))
    taken = (argmax >= 0) & (argmax < at.height * at.width) & good
    channel = torch.arange(channels, device=grad_out.device)[:, None, None]
    # What no bin took goes to a place behind all pixels.
    last = at.images * channels * at.height * at.width
    place = torch.where(taken, (image * channels + channel) * (at.height * at.width) + argmax, last)
    sums = grad_out.new_zeros(last + 1, dtype=wide).index_add(0, place.flatten(), grad_out.to(wide).flatten())
    return sums[:last].reshape(at.images, channels, at.height, at.width).to(grad_out.dtype)


@roi_pool_sized.examples
def _examples() -> list[dict[str, object]]:
    """Boxes that lie in the images and across their edges, and some invalid ones."""
    common = {"boxes": example_boxes(), "images": 2, "height": 12, "width": 17, "out_height": 3}
    features = torch.randn(2, 3, 12, 17, generator=torch.Generator().manual_seed(0))
    return [
        {"features": features, **common, "out_width": bins, "spatial_scale": scale}
        for bins, scale in ((2, 0.5), (5, 0.75), (20, 1.0))
    ]


def _check_pixels(height: int, width: int) -> None:
    if max(height, width, height * width) > _MOST_PIXELS:
        raise ArgumentValueError(f"an image can have up to {_MOST_PIXELS} pixels; found {height} x {width}")


def _members(start: Tensor, end: Tensor, size: int, bins: int) -> Tensor:
    """Return which pixels of an axis are in each bin of each box, [K bins size]: roi_pool.cpp, step by step."""
    start, end = _rounded(start), _rounded(end)
    length = (end - start + 1).clamp(min=1)
    # By a tensor: PyTorch divides by a number on a GPU by multiplying with its inverse, which rounds twice.
    length_of_bin = (length / torch.full_like(length, bins))[:, None]
    bin_ = torch.arange(bins, device=start.device, dtype=torch.float32)
    low = (bin_ * length_of_bin).floor() + start[:, None]
    high = ((bin_ + 1) * length_of_bin).ceil() + start[:, None]
    pixel = torch.arange(size, device=start.device, dtype=torch.float32)
    return (pixel >= low[..., None]) & (pixel < high[..., None])


def _rounded(edge: Tensor) -> Tensor:
    """Round halves away from zero; torch.round takes them to even."""
    whole = edge.trunc()
    return whole + torch.where((edge - whole).abs() >= 0.5, edge.sign(), 0.0)


def _largest(values: Tensor, members: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest of the last dimension among the members, and the first place where it is."""
    largest, place = torch.where(members, values, -math.inf).max(-1)
    # Where all are -inf, the first may be none of the members.
    first = members.to(torch.uint8).argmax(-1).expand(place.shape)
    return largest, torch.where(largest == -math.inf, first, place)
