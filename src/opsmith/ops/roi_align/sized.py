"""Defines roi_align with all sizes as arguments, and its transpose. Each is the gradient of the other."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float32
from torch import Tensor

import opsmith
from opsmith.errors import ArgumentValueError
from opsmith.ops._boxes.boxes import edges_and_images, example_boxes

__all__ = ["Sampling", "roi_align_sized", "roi_align_transposed"]

_MOST_SAMPLES = 1024  # as in roi_align.h


@dataclass(frozen=True)
class Sampling:
    """The sizes of images and results, and where the sampling points of a box lie."""

    images: int
    height: int
    width: int
    out_height: int
    out_width: int
    spatial_scale: float = 1.0
    sampling_ratio: int = -1
    aligned: bool = False


# The images' sizes are arguments, although the tensor has them: so each operator can give the other all that it needs,
# and a gradient keeps the boxes alone.
@opsmith.op(
    cpu="roi_align.cpp",
    cuda="roi_align.cu",
    outputs="out",
    nondifferentiable="boxes",
    preserve_format={"out": "features"},
    batch="C",
)
def roi_align_sized(
    features: Float[Tensor, "images C height width"],
    boxes: Float32[Tensor, "K 5"],
    sampling: Sampling,
) -> Float[Tensor, "K C out_height out_width"]:
    """Average the features at the sampling points of each bin of each box. Call it through `roi_align`.

    The sampling points of a bin are a grid and bilinear weights are products, so along each axis there is a matrix of
    weights, and a box's result is one matrix, its image, and the other matrix multiplied. What has the weight 0 does not
    take part, be it NaN.
    """
    across, along, image = _weights(boxes, sampling, _wide(features))
    if sampling.images == 0:
        return features.new_zeros(boxes.shape[0], features.shape[1], sampling.out_height, sampling.out_width)
    wide = features.to(across.dtype)
    sums = torch.einsum("kph,skchw,kqw->skcpq", across, _parts(wide)[:, image], along)
    return _whole(sums).to(features.dtype)


@roi_align_sized.backward(
    cpu="roi_align.cpp",
    cuda="roi_align.cu",
    nondifferentiable="boxes",
    preserve_format={"grad_features": "grad_out"},
)
def roi_align_transposed(
    grad_out: Float[Tensor, "K C out_height out_width"],
    boxes: Float32[Tensor, "K 5"],
    sampling: Sampling,
) -> Float[Tensor, "images C height width"]:
    """The gradient of the features: that of each bin goes to the pixels that the bin is made of, with their weights."""
    across, along, image = _weights(boxes, sampling, _wide(grad_out))
    shape = (sampling.images, grad_out.shape[1], sampling.height, sampling.width)
    gradient = grad_out.new_zeros(shape, dtype=across.dtype)
    if sampling.images == 0:
        return gradient.to(grad_out.dtype)
    wide = grad_out.to(across.dtype)
    each = torch.einsum("kph,skcpq,kqw->kschw", across, _parts(wide), along)
    sums = gradient.new_zeros(sampling.images, 3, *gradient.shape[1:]).index_add(0, image, each)
    return _whole(sums.transpose(0, 1)).to(grad_out.dtype)


roi_align_transposed.gradient_is(roi_align_sized, features="grad_grad_features", out="grad_grad_out")


@roi_align_sized.examples
def _examples() -> list[dict[str, object]]:
    """Boxes that lie in the images and across their edges, of every kind of sampling, and some invalid ones."""
    features = torch.randn(2, 3, 12, 17, generator=torch.Generator().manual_seed(0))
    sizes = {"images": 2, "height": 12, "width": 17}
    return [
        {
            "features": features,
            "boxes": example_boxes(),
            **sizes,
            "out_height": 3,
            "out_width": bins,
            "spatial_scale": scale,
            "sampling_ratio": ratio,
            "aligned": aligned,
        }
        for bins, scale, ratio, aligned in (
            (2, 0.5, 2, False),
            (5, 0.75, -1, True),
            (20, 0.5, 0, False),
            (1, 2.0, 3, True),
        )
    ]


def _wide(features: Tensor) -> torch.dtype:
    return torch.float64 if features.dtype == torch.float64 else torch.float32


def _parts(values: Tensor) -> Tensor:
    """Return values in three parts, none of which a weight of 0 makes NaN: the finite ones, and 1 for each +inf and -inf.

    NaN is both.
    """
    up, down = ((values == sign * math.inf) | values.isnan() for sign in (1, -1))
    return torch.stack([torch.where(values.isfinite(), values, 0), up.to(values.dtype), down.to(values.dtype)])


def _whole(sums: Tensor) -> Tensor:
    """Return the weighted sum of values from those of their parts."""
    infinite = torch.where(sums[1] > 0, math.inf, 0.0) - torch.where(sums[2] > 0, math.inf, 0.0)
    return sums[0] + infinite


def _weights(boxes: Tensor, sampling: Sampling, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return the weights along y, [K out_height height], and along x, and the image of each box; a bad box has none."""
    at = sampling
    if at.sampling_ratio > _MOST_SAMPLES:
        raise ArgumentValueError(f"sampling_ratio can be up to {_MOST_SAMPLES}; found {at.sampling_ratio}")
    edges, image, good = edges_and_images(boxes, at.images, at.spatial_scale, 0.5 if at.aligned else 0.0)
    across = _axis(edges[:, 1], edges[:, 3], at.height, at.out_height, at.sampling_ratio, at.aligned, dtype)
    along = _axis(edges[:, 0], edges[:, 2], at.width, at.out_width, at.sampling_ratio, at.aligned, dtype)
    return torch.where(good[:, None, None], across, 0.0), along, image


def _axis(
    start: Tensor, end: Tensor, size: int, bins: int, sampling_ratio: int, aligned: bool, dtype: torch.dtype
) -> Tensor:
    """Return how much each pixel of an axis weighs in each bin of each box, [K bins size].

    The float32 operations are those of roi_align.h in its order, so that both find the same points.
    """
    weights = torch.zeros(*start.shape, bins, size, dtype=dtype, device=start.device)
    if size == 0 or bins == 0:
        return weights
    length = end - start if aligned else (end - start).clamp(min=1)
    # By a tensor: PyTorch divides by a number on a GPU by multiplying with its inverse, which rounds twice.
    length_of_bin = (length / torch.full_like(length, bins))[:, None]
    begin = start[:, None] + torch.arange(bins, device=start.device, dtype=torch.float32) * length_of_bin
    if sampling_ratio > 0:
        samples = torch.full_like(length_of_bin, sampling_ratio)
        first, most = torch.zeros_like(begin), sampling_ratio
    else:
        # Sampling points are at least half a pixel apart, so no more than `most` of a bin lie in the image.
        samples, most = length_of_bin.ceil(), 2 * size + 12
        before = ((-1 - begin) * samples / length_of_bin - 0.5).floor() - 3
        first = torch.where(samples > most, before.clamp(min=0), 0.0)
    sample = first[..., None] + torch.arange(most, device=start.device, dtype=torch.float32)
    samples = samples[..., None]
    point = begin[..., None] + (sample + 0.5) * length_of_bin[..., None] / samples
    counts = (sample < samples) & (point >= -1) & (point <= size)
    point = torch.where(counts, point, 0.0).clamp(min=0)
    low = point.floor().clamp(max=size - 1)
    above = torch.where(low < size - 1, point - low, 0.0)
    share = torch.where(counts, 1 / samples.to(dtype), 0.0)
    index = low.to(torch.int64)
    weights = weights.scatter_add(2, index, (1 - above).to(dtype) * share)
    return weights.scatter_add(2, (index + 1).clamp(max=size - 1), above.to(dtype) * share)
