"""What torchvision's users import: deform_conv2d."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from opsmith.ops.deform_conv2d.sized import deform_conv2d_sized

__all__ = ["Size", "check_ranks", "deform_conv2d", "pair"]

Size = int | Sequence[int]


def deform_conv2d(
    input: Tensor,  # noqa: A002 -- as torchvision calls it
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = (1, 1),
    padding: Size = (0, 0),
    dilation: Size = (1, 1),
    mask: Tensor | None = None,
) -> Tensor:
    """Return a deformable convolution, [N, O, OH, OW], called as `torchvision.ops.deform_conv2d` is.

    Version 1 (Dai et al., "Deformable Convolutional Networks", https://arxiv.org/abs/1703.06211), and with a mask version 2
    (Zhu et al., https://arxiv.org/abs/1811.11168). Each tap of the filter reads the image beside its place on the grid, by
    an offset of its own at each output, interpolated bilinearly; what is outside of the image is zero.

    Parameters
    ----------
    input
        Images [N, C, H, W]; float16, bfloat16, float32 or float64, all tensors of one type, in any layout. The result has
        the type and the memory format of the input. Places and sums are computed in float32, for float64 in float64; on a
        GPU factors of products in float32 are rounded to TF32 where PyTorch allows that in convolutions, as it does
        unless `torch.backends.cudnn.conv.fp32_precision` says "ieee" (or `torch.backends.cudnn.allow_tf32` is False).
    offset
        [N, 2 * offset groups * KH * KW, OH, OW], the channels counted as [offset group, ky, kx, (y, x)]. The channels of
        an image are divided into as many groups, each with offsets of its own. A NaN makes the sample NaN.
    weight
        [O, C / groups, KH, KW], as that of `torch.nn.functional.conv2d`.
    bias
        [O].
    stride, padding, dilation
        An int, or (y, x).
    mask
        What samples are multiplied with, [N, offset groups * KH * KW, OH, OW].

    There are gradients of all five tensors, of any order.

    Raises RuntimeError where shapes and numbers do not fit together, in torchvision's words; DtypeError and DeviceError for
    tensors of several types or devices.
    """
    check_ranks(input, offset, weight, mask)
    (stride_y, stride_x), (pad_y, pad_x), (dilation_y, dilation_x) = pair(stride), pair(padding), pair(dilation)
    _check_numbers(weight, (stride_y, stride_x), (pad_y, pad_x), (dilation_y, dilation_x))
    taps = weight.shape[2] * weight.shape[3]
    offset_groups = offset.shape[1] // (2 * taps)
    if offset_groups == 0:
        raise RuntimeError(
            "the shape of the offset tensor at dimension 1 is not valid. It should be a multiple of 2 * weight.size[2] * "
            f"weight.size[3].\nGot offset.shape[1]={offset.shape[1]}, while 2 * weight.size[2] * weight.size[3]={2 * taps}"
        )
    groups = input.shape[1] // weight.shape[1] if weight.shape[1] > 0 else 1
    _check_channels(input, weight, groups, offset_groups)
    sizes = tuple(
        (size + 2 * pad - (step * (extent - 1) + 1)) // jump + 1
        for size, pad, step, extent, jump in zip(
            input.shape[2:],
            (pad_y, pad_x),
            (dilation_y, dilation_x),
            weight.shape[2:],
            (stride_y, stride_x),
            strict=True,
        )
    )
    _check_beside("offset", offset, input, 2 * offset_groups * taps, sizes)
    if mask is not None:
        _check_beside("mask", mask, input, offset_groups * taps, sizes)
    if sizes[0] <= 0 or sizes[1] <= 0:
        raise RuntimeError(f"Calculated output size too small - out_h: {sizes[0]} out_w: {sizes[1]}")
    result: Tensor = deform_conv2d_sized(
        input,
        offset,
        weight,
        bias,
        mask,
        stride_y,
        stride_x,
        pad_y,
        pad_x,
        dilation_y,
        dilation_x,
        groups,
        offset_groups,
        input.is_cuda and _allows_tf32(),
    )
    return result


# Dynamo cannot trace the question; it guards on what the answer depends on, and asks again where that has changed.
@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _allows_tf32() -> bool:
    # torchvision's asks what products of matrices may do, since that is how it multiplies. mypy sees no attributes of the
    # object that PyTorch puts in place of this module.
    return bool(torch.backends.cudnn.conv.fp32_precision == "tf32")  # type: ignore[attr-defined]


def pair(size: Size) -> tuple[int, int]:
    """Return a size as (y, x)."""
    if isinstance(size, Sequence):
        y, x = size if len(size) == 2 else (size[0], size[0])
        return y, x
    return size, size


def check_ranks(input: Tensor, offset: Tensor, weight: Tensor, mask: Tensor | None) -> None:  # noqa: A002
    """Refuse tensors that have other than four dimensions."""
    for name, tensor in (("input", input), ("offset", offset), ("weight", weight), ("mask", mask)):
        if tensor is not None and tensor.dim() != 4:
            raise RuntimeError(f"deform_conv2d(): {name} has {tensor.dim()} dimensions, expected 4")


def _check_numbers(weight: Tensor, stride: tuple[int, int], pad: tuple[int, int], dilation: tuple[int, int]) -> None:
    for name, (y, x), least in (
        ("weight", (weight.shape[2], weight.shape[3]), 1),
        ("stride", stride, 1),
        ("pad", pad, 0),
        ("dil", dilation, 1),
    ):
        if y < least or x < least:
            raise RuntimeError(f"{name}_h: {y} {name}_w: {x}")


def _check_channels(input: Tensor, weight: Tensor, groups: int, offset_groups: int) -> None:  # noqa: A002
    if groups == 0 or weight.shape[1] * groups != input.shape[1]:
        raise RuntimeError(
            f"input has {input.shape[1]} channels, which is no multiple of those of the weight, {weight.shape[1]}"
        )
    if weight.shape[0] % groups != 0:
        raise RuntimeError(f"weight has {weight.shape[0]} output channels, which is no multiple of its {groups} groups")
    if input.shape[1] % offset_groups != 0:
        raise RuntimeError(
            f"input has {input.shape[1]} channels, which is no multiple of {offset_groups} offset groups"
        )


def _check_beside(name: str, tensor: Tensor, input: Tensor, channels: int, sizes: tuple[int, ...]) -> None:  # noqa: A002
    """Check the shape of what there is one of for each output position: offset or mask."""
    if tensor.shape[1] != channels:
        raise RuntimeError(f"{name}.shape[1] is not valid: got: {tensor.shape[1]} expected: {channels}")
    if tensor.shape[0] != input.shape[0]:
        raise RuntimeError(f"invalid batch size of {name}")
    if tuple(tensor.shape[2:]) != sizes:
        found = ", ".join(map(str, tensor.shape[2:]))
        raise RuntimeError(f"{name} output dims: ({found}) - computed output dims: ({sizes[0]}, {sizes[1]})")
