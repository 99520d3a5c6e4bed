"""Defines the operator with explicit numbers, for every output size, and its gradient."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

import opsmith
from opsmith.errors import ArgumentValueError, ShapeError

__all__ = ["Geometry", "Needed", "deform_conv2d_sized", "deform_conv2d_sized_backward"]

# Kernels also reject larger strides, paddings and dilations: their products with sizes must fit into 64 bits.
_LARGEST = 1 << 31


@dataclass(frozen=True)
class Geometry:
    """Where the taps of a filter lie without an offset, and into how many groups channels are divided."""

    stride_y: int = 1
    stride_x: int = 1
    pad_y: int = 0
    pad_x: int = 0
    dilation_y: int = 1
    dilation_x: int = 1
    groups: int = 1
    offset_groups: int = 1


@dataclass(frozen=True)
class Needed:
    """Which gradients are needed; the others have no elements."""

    needs_grad_input: bool
    needs_grad_offset: bool
    needs_grad_weight: bool
    needs_grad_bias: bool
    needs_grad_mask: bool


# The output has the offset's height and width, whatever they are: samples outside of the image are zero. That they are
# those of the convolution is checked by the public function.
@opsmith.op(
    cpu="deform_conv2d.cpp",
    cuda="deform_conv2d.cu",
    outputs="out",
    preserve_format={"out": "input"},
    batch="N",
    autocast="float32",  # as torchvision's; `deform_conv2d` offers "low"
)
def deform_conv2d_sized(
    input: Float[Tensor, "N groups*Cg H W"],  # noqa: A002 -- as torchvision calls it
    offset: Float[Tensor, "N 2*offset_groups*KH*KW OH OW"],
    weight: Float[Tensor, "O Cg KH KW"],
    bias: Float[Tensor, "O"] | None = None,
    mask: Float[Tensor, "N offset_groups*KH*KW OH OW"] | None = None,
    geometry: Geometry = Geometry(),
    tf32: bool = False,
) -> Float[Tensor, "N O OH OW"]:
    """Convolve images that are sampled off the grid. Call it through `deform_conv2d`.

    out[n, o, i, j] = bias[o] + sum over c, ky, kx of weight[o, c, ky, kx] * mask * sample(n, c, y, x) with y = i *
    stride_y - pad_y + ky * dilation_y + the offset along y, x likewise (Dai et al., equation 2; Zhu et al., "Deformable
    ConvNets v2", equation 1). The sample is interpolated bilinearly between the four pixels around (y, x), those
    outside of the image being zero; from one pixel outside on it is zero itself. Where a coordinate is NaN, the sample
    is.

    `tf32` allows to round the factors of float32 products, samples and weights, to TF32's 10 bits, which kernels for a
    GPU do; nothing else looks at it.
    """
    g = geometry
    _check(input, weight, g)
    wide = torch.float64 if input.dtype == torch.float64 else torch.float32
    images, channels = input.shape[:2]
    outputs, _, taps_y, taps_x = weight.shape
    shift = offset.to(wide).unflatten(1, (g.offset_groups, taps_y, taps_x, 2))
    out_height, out_width = offset.shape[2:]
    grid_y = _grid(out_height, taps_y, g.stride_y, g.pad_y, g.dilation_y, shift)[:, None, :, None]
    grid_x = _grid(out_width, taps_x, g.stride_x, g.pad_x, g.dilation_x, shift)[None, :, None, :]
    y, x = grid_y + shift[:, :, :, :, 0], grid_x + shift[:, :, :, :, 1]
    columns = _samples(
        input.to(wide).unflatten(1, (g.offset_groups, channels // g.offset_groups)), y.flatten(2), x.flatten(2)
    )
    if mask is not None:
        columns = columns * mask.to(wide).unflatten(1, (g.offset_groups, taps_y * taps_x)).flatten(2)[:, :, None]
    columns = columns.reshape(images, g.groups, channels // g.groups, taps_y * taps_x, out_height * out_width)
    factors = weight.to(wide).reshape(g.groups, outputs // g.groups, channels // g.groups, taps_y * taps_x)
    if tf32 and input.dtype == torch.float32:
        columns, factors = _to_tf32(columns), _to_tf32(factors)
    out = torch.einsum("ngckp,gock->ngop", columns, factors).reshape(images, outputs, out_height, out_width)
    if bias is not None:
        out = out + bias.to(wide)[:, None, None]
    return out.to(input.dtype)


@deform_conv2d_sized.backward(cpu="deform_conv2d.cpp", cuda="deform_conv2d.cu", preserve_format={"grad_input": "input"})
def deform_conv2d_sized_backward(  # type: ignore[empty-body]
    grad_out: Float[Tensor, "N O OH OW"],
    input: Float[Tensor, "N groups*Cg H W"],  # noqa: A002
    offset: Float[Tensor, "N 2*offset_groups*KH*KW OH OW"],
    weight: Float[Tensor, "O Cg KH KW"],
    bias: Float[Tensor, "O"] | None,
    mask: Float[Tensor, "N offset_groups*KH*KW OH OW"] | None,
    geometry: Geometry,
    tf32: bool,
    needed: Needed,
) -> tuple[
    Float[Tensor, "N groups*Cg H W"],
    Float[Tensor, "N 2*offset_groups*KH*KW OH OW"],
    Float[Tensor, "O Cg KH KW"],
    Float[Tensor, "O"],
    Float[Tensor, "N offset_groups*KH*KW OH OW"],
]:
    """The gradients, from the inputs again.

    A sample's gradient along y and x is that between the four pixels around it. On a line of pixels, where there are
    two, it is that towards the larger coordinate.
    """
    ...


@deform_conv2d_sized.examples
def _examples() -> list[dict[str, object]]:
    """Convolutions of several groups and of several groups of offsets, strided and dilated; samples far outside, too."""
    random = torch.Generator().manual_seed(0)
    calls: list[dict[str, object]] = []
    for groups, offset_groups, stride, pad, dilation in (
        (1, 2, 1, 1, 1),
        (2, 1, 2, 0, 1),
        (3, 2, 1, 2, 2),
        (6, 6, 1, 1, 1),
    ):
        taps = 3 * 2
        calls.append(
            {
                "input": torch.randn(2, 6, 9, 7, generator=random),
                "offset": 2 * torch.randn(2, 2 * offset_groups * taps, 5, 8, generator=random),
                "weight": torch.randn(6, 6 // groups, 3, 2, generator=random),
                "bias": torch.randn(6, generator=random) if groups < 3 else None,
                "mask": torch.rand(2, offset_groups * taps, 5, 8, generator=random) if groups != 2 else None,
                "geometry": Geometry(stride, 1, pad, 1, 1, dilation, groups, offset_groups),
            }
        )
    return calls


def _check(input: Tensor, weight: Tensor, geometry: Geometry) -> None:  # noqa: A002
    g = geometry
    if g.groups < 1 or g.offset_groups < 1:
        raise ArgumentValueError(f"groups and offset_groups are at least 1; they are {g.groups} and {g.offset_groups}")
    if input.shape[1] % g.offset_groups != 0:
        raise ShapeError(f"input has {input.shape[1]} channels, not a multiple of offset_groups = {g.offset_groups}")
    if weight.shape[0] % g.groups != 0:
        raise ShapeError(f"weight has {weight.shape[0]} output channels, not a multiple of groups = {g.groups}")
    numbers = (g.stride_y, g.stride_x, g.pad_y, g.pad_x, g.dilation_y, g.dilation_x)
    if any(not -_LARGEST <= number <= _LARGEST for number in numbers):
        raise ArgumentValueError(f"strides, paddings and dilations have at most 31 bits; they are {numbers}")


def _to_tf32(factor: Tensor) -> Tensor:
    """Round float32 to the nearest with 10 bits, ties away from zero; its gradient is that of what was not rounded."""
    numbers = factor.detach()
    rounded = ((numbers.view(torch.int32) + (1 << 12)) & -(1 << 13)).view(torch.float32)
    return factor + torch.where(numbers.isfinite(), rounded - numbers, 0.0)


def _grid(size: int, taps: int, stride: int, pad: int, dilation: int, like: Tensor) -> Tensor:
    """Return where each tap reads for each output along an axis, without an offset: [taps size]."""
    output = torch.arange(size, device=like.device) * stride - pad
    return (torch.arange(taps, device=like.device)[:, None] * dilation + output).to(like.dtype)


def _samples(images: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Interpolate images [N D C H W] at points y and x, [N D points]: [N D C points]."""
    height, width = images.shape[3:]
    outside = (y <= -1) | (y >= height) | (x <= -1) | (x >= width)
    y, x = torch.where(outside, -2.0, y), torch.where(outside, -2.0, x)
    top, left = y.floor(), x.floor()
    below, right = y - top, x - left
    # One more pixel, zero, stands for all that are outside: there may be no other.
    pixels = functional.pad(images.flatten(3), (0, 1))
    total: Tensor | None = None
    for row, share_y in ((top, 1 - below), (top + 1, below)):
        for column, share_x in ((left, 1 - right), (left + 1, right)):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            place = torch.where(inside, row, 0).to(torch.int64) * width + torch.where(inside, column, 0).to(torch.int64)
            place = torch.where(inside, place, height * width)[:, :, None].expand(-1, -1, images.shape[2], -1)
            part = pixels.gather(3, place) * (share_y * share_x)[:, :, None]
            total = part if total is None else total + part
    assert total is not None
    return total
