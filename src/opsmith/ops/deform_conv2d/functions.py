"""Defines deform_conv2d, as torchvision's users call it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

import opsmith
from opsmith.ops._arguments import TensorShapeError, check_choice, check_tensors, read_pair
from opsmith.ops.deform_conv2d.sized import deform_conv2d_sized

__all__ = ["Size", "check_ranks", "deform_conv2d", "pair"]

if TYPE_CHECKING:
    Size: TypeAlias = int | Sequence[int]
else:
    Size = tuple[int, int]  # all that TorchScript knows, of torchvision's as well


@opsmith.scriptable
def deform_conv2d(
    input: Tensor,  # noqa: A002 -- as torchvision calls it
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = (1, 1),
    padding: Size = (0, 0),
    dilation: Size = (1, 1),
    mask: Tensor | None = None,
    autocast: str = "float32",
) -> Tensor:
    """Return a deformable convolution, [N, O, OH, OW], called as `torchvision.ops.deform_conv2d` is.

    Version 1 (Dai et al., "Deformable Convolutional Networks", https://arxiv.org/abs/1703.06211), and with a mask
    version 2 (Zhu et al., https://arxiv.org/abs/1811.11168). Each tap of the filter reads the image beside its place on
    the grid, by a separate offset at each output, interpolated bilinearly; what is outside of the image is zero.

    Parameters
    ----------
    input
        Images [N, C, H, W]; float16, bfloat16, float32 or float64, all tensors of one type, in any layout. The result
        has the type and the memory format of the input. Places and sums are computed in float32, for float64 in
        float64; on a GPU factors of products in float32 are rounded to TF32 where PyTorch allows that in convolutions,
        as it does unless `torch.backends.cudnn.conv.fp32_precision` says "ieee" (or `torch.backends.cudnn.allow_tf32`
        is False). What `torch.jit.script` has compiled cannot ask, and does not round.
    offset
        [N, 2 * offset groups * KH * KW, OH, OW], the channels counted as [offset group, ky, kx, (y, x)]. The channels
        of an image are divided into as many groups, each with offsets of its own. A NaN makes the sample NaN.
    weight
        [O, C / groups, KH, KW], as that of `torch.nn.functional.conv2d`.
    bias
        [O].
    stride, padding, dilation
        An int, or (y, x).
    mask
        What samples are multiplied with, [N, offset groups * KH * KW, OH, OW].
    autocast
        In a region of `torch.autocast`, "float32" casts all tensors to float32 and the result to the input's type, as
        torchvision does; "low" casts them to autocast's type, which the result then has, as convolutions do. float64 is
        never cast. What `torch.jit.script` has compiled computes in float32 there.

    There are gradients of all five tensors, of any order.

    Raises a ShapeError that is a RuntimeError if shapes and numbers do not fit together, in torchvision's words;
    ArgumentTypeError for arguments of another type, and ArgumentValueError for another `autocast`; DtypeError and
    DeviceError for tensors of several types or devices.
    """
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        check_tensors(
            "deform_conv2d", optional=("bias", "mask"), input=input, offset=offset, weight=weight, bias=bias, mask=mask
        )
        check_choice("deform_conv2d", "autocast", autocast, ("float32", "low"))
        if autocast == "low" and _is_autocast_on(input):
            low = torch.get_autocast_dtype(input.device.type)
            input, offset, weight = _cast(input, low), _cast(offset, low), _cast(weight, low)  # noqa: A001
            bias = None if bias is None else _cast(bias, low)
            mask = None if mask is None else _cast(mask, low)
            with torch.autocast(input.device.type, enabled=False):
                return deform_conv2d(input, offset, weight, bias, stride, padding, dilation, mask)
    check_ranks(input, offset, weight, mask)
    stride_y, stride_x = pair("stride", stride)
    pad_y, pad_x = pair("padding", padding)
    dilation_y, dilation_x = pair("dilation", dilation)
    _check_numbers("weight", weight.shape[2], weight.shape[3], 1)
    _check_numbers("stride", stride_y, stride_x, 1)
    _check_numbers("pad", pad_y, pad_x, 0)
    _check_numbers("dil", dilation_y, dilation_x, 1)
    taps = weight.shape[2] * weight.shape[3]
    offset_groups = offset.shape[1] // (2 * taps)
    if offset_groups == 0:
        raise TensorShapeError(
            "deform_conv2d(): the shape of the offset tensor at dimension 1 is not valid. It should be a multiple of "
            f"2 * weight.size[2] * weight.size[3].\n"
            f"Got offset.shape[1]={offset.shape[1]}, while 2 * weight.size[2] * weight.size[3]={2 * taps}"
        )
    groups = input.shape[1] // weight.shape[1] if weight.shape[1] > 0 else 1
    _check_channels(input, weight, groups, offset_groups)
    height = (input.shape[2] + 2 * pad_y - (dilation_y * (weight.shape[2] - 1) + 1)) // stride_y + 1
    width = (input.shape[3] + 2 * pad_x - (dilation_x * (weight.shape[3] - 1) + 1)) // stride_x + 1
    _check_beside("offset", offset, input, 2 * offset_groups * taps, height, width)
    if mask is not None:
        _check_beside("mask", mask, input, offset_groups * taps, height, width)
    if height <= 0 or width <= 0:
        raise TensorShapeError(f"deform_conv2d(): Calculated output size too small - out_h: {height} out_w: {width}")
    tf32 = False
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        tf32 = input.is_cuda and _allows_tf32()
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
        tf32,
    )
    return result.to(input.dtype)


def _is_autocast_on(tensor: Tensor) -> bool:
    return tensor.device.type in ("cpu", "cuda") and torch.is_autocast_enabled(tensor.device.type)


def _cast(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Cast as autocast does: what has at most 32 bits."""
    return tensor.to(dtype) if tensor.dtype in (torch.float16, torch.bfloat16, torch.float32) else tensor


def _allows_tf32() -> bool:
    # torchvision's asks what products of matrices may do, since that is how it multiplies. mypy sees no attributes of the
    # object that PyTorch puts in place of this module.
    return bool(torch.backends.cudnn.conv.fp32_precision == "tf32")  # type: ignore[attr-defined]


# Dynamo can neither trace the question nor guard on what the answer depends on: compiled code keeps the answer. This is what
# torch.compiler.assume_constant_result does, after it has imported the compiler, which takes seconds.
_allows_tf32._dynamo_marked_constant = True  # type: ignore[attr-defined]


def pair(name: str, size: Size) -> tuple[int, int]:
    """Return an argument as (y, x)."""
    if torch.jit.is_scripting():  # type: ignore[attr-defined]
        return size  # type: ignore[return-value]
    return read_pair("deform_conv2d", name, size)


def check_ranks(input: Tensor, offset: Tensor, weight: Tensor, mask: Tensor | None) -> None:  # noqa: A002
    """Reject tensors that do not have four dimensions."""
    _check_rank("input", input)
    _check_rank("offset", offset)
    _check_rank("weight", weight)
    if mask is not None:
        _check_rank("mask", mask)


def _check_rank(name: str, tensor: Tensor) -> None:
    if tensor.dim() != 4:
        raise TensorShapeError(f"deform_conv2d(): {name} has {tensor.dim()} dimensions, expected 4")


def _check_numbers(name: str, y: int, x: int, least: int) -> None:
    if y < least or x < least:
        raise TensorShapeError(f"deform_conv2d(): {name}_h: {y} {name}_w: {x}")


def _check_channels(input: Tensor, weight: Tensor, groups: int, offset_groups: int) -> None:  # noqa: A002
    if groups == 0 or weight.shape[1] * groups != input.shape[1]:
        raise TensorShapeError(
            f"deform_conv2d(): input has {input.shape[1]} channels, which is not a multiple of the weight's "
            f"{weight.shape[1]}"
        )
    if weight.shape[0] % groups != 0:
        raise TensorShapeError(
            f"deform_conv2d(): weight has {weight.shape[0]} output channels, which is not a multiple of its {groups} groups"
        )
    if input.shape[1] % offset_groups != 0:
        raise TensorShapeError(
            f"deform_conv2d(): input has {input.shape[1]} channels, which is not a multiple of {offset_groups} offset groups"
        )


def _check_beside(name: str, tensor: Tensor, input: Tensor, channels: int, height: int, width: int) -> None:  # noqa: A002
    """Check the shape of what there is one of for each output position: offset or mask."""
    if tensor.shape[1] != channels:
        raise TensorShapeError(
            f"deform_conv2d(): {name}.shape[1] is not valid: got: {tensor.shape[1]} expected: {channels}"
        )
    if tensor.shape[0] != input.shape[0]:
        raise TensorShapeError(f"deform_conv2d(): invalid batch size of {name}")
    if tensor.shape[2] != height or tensor.shape[3] != width:
        found = f"({tensor.shape[2]}, {tensor.shape[3]})"
        raise TensorShapeError(
            f"deform_conv2d(): {name} output dims: {found} - computed output dims: ({height}, {width})"
        )
