"""Defines the operator of the filters that StyleGAN3 has, which keeps two bits of u for its gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float32, Int32
from torch import Tensor
from torch.nn import functional

import opsmith
from opsmith.errors import ArgumentValueError
from opsmith.ops.filtered_lrelu.oversampling import (
    Activation,
    Oversampling,
    down_flops,
    down_resampling,
    size_of_u,
    transposed_flops,
    up_flops,
    up_resampling,
    upsampled,
)
from opsmith.ops.filtered_lrelu.sized import filtered_lrelu_sized
from opsmith.ops.upfirdn2d.sized import upfirdn2d_transposed

__all__ = [
    "SignSizes",
    "filtered_lrelu_signed",
    "filtered_lrelu_signed_backward",
    "has_signs",
    "sign_blocks",
    "sign_sizes",
]

_SPAN = 6  # taps for each of a filter's factor
_BLOCK = 4  # a word has the signs of so many rows and columns
_IS_POSITIVE, _IS_BLOCKED = 1, 2
_TYPES = (torch.float16, torch.bfloat16, torch.float32)
# Factors in front of the nonlinearity and behind it, and whether the second filter may be full.
_FACTORS = {(2, 2): True, (4, 2): True, (2, 4): False}
_MOST_SIZE = 1 << 28  # of an image along an axis


@dataclass(frozen=True)
class SignSizes:
    """The size of x, and how many words of signs u has along both axes."""

    height: int
    width: int
    sign_rows: int
    sign_columns: int


def has_signs(x: Tensor, fu: Tensor, fd: Tensor, up: int, down: int) -> bool:
    """Whether a call is for `filtered_lrelu_signed`: on a GPU, and with filters that its kernels have."""
    if not x.is_cuda or x.dtype not in _TYPES or max(x.shape[2:]) >= _MOST_SIZE:
        return False
    taps_up, taps_down = _SPAN * up, _SPAN * down
    may_be_full = _FACTORS.get((up, down))
    is_full = may_be_full and fd.ndim == 2 and tuple(fd.shape) == (taps_down, taps_down)
    is_separable = fd.ndim == 1 and len(fd) == taps_down
    return may_be_full is not None and fu.ndim == 1 and len(fu) == taps_up and bool(is_full or is_separable)


def sign_sizes(height: int, width: int, fd: Tensor, o: Oversampling) -> SignSizes:
    """Return the sizes that belong to a call."""
    rows, columns = (
        sign_blocks(size, pad, o.up, o.down) for size, pad in zip(size_of_u(fd, o), (o.pad_y, o.pad_x), strict=True)
    )
    return SignSizes(height, width, rows, columns)


def sign_blocks(size: int, pad: int, up: int, down: int) -> int:
    """Return how many words of signs u has along an axis, of which it has so many numbers."""
    return -(-(size + _shift(pad, up, down)) // _BLOCK)


def _shift(pad: int, up: int, down: int) -> int:
    """Return by how many numbers blocks begin before u: where groups of upsampled numbers and outputs begin together."""
    return (-pad - 1) % up // down * down


@opsmith.op(
    cuda="signed.cu",
    outputs=("y", "signs"),
    saved="signs",
    nondifferentiable=("fu", "fd"),
    preserve_format={"y": "x"},
    dtypes=_TYPES,
    batch=("N", "C"),
)
def filtered_lrelu_signed(
    x: Float[Tensor, "N C height width"],
    fu: Float32[Tensor, "UH UW"],
    fd: Float32[Tensor, "DH DW"],
    b: Float[Tensor, "C"] | None,
    oversampling: Oversampling,
    activation: Activation,
    sizes: SignSizes,
    needs_signs: bool = False,
) -> tuple[Float[Tensor, "N C out_height out_width"], Int32[Tensor, "N C sign_rows sign_columns"]]:
    """As `filtered_lrelu_sized`, for filters with six taps for each of their factor. Call it through `filtered_lrelu`.

    For the gradient it keeps two bits of each number of u: whether that is positive, and whether nothing flows back
    through it. A word has those of 4 x 4 numbers, a row in each byte, columns from the low bits on.
    """
    _check(fu, fd, x.shape[2], x.shape[3], oversampling, sizes)
    y: Tensor = filtered_lrelu_sized.reference(x, fu, fd, b, oversampling, activation)
    if not needs_signs:
        return y, x.new_empty(0, dtype=torch.int32)
    return y, _packed(upsampled(x, fu, fd, b, oversampling), oversampling, activation, sizes)


@filtered_lrelu_signed.backward(
    cuda="signed.cu",
    nondifferentiable=("fu", "fd"),
    contiguous="signs",
    preserve_format={"grad_x": "grad_y"},
    dtypes=_TYPES,
)
def filtered_lrelu_signed_backward(
    grad_y: Float[Tensor, "N C out_height out_width"],
    signs: Int32[Tensor, "N C sign_rows sign_columns"],
    fu: Float32[Tensor, "UH UW"],
    fd: Float32[Tensor, "DH DW"],
    oversampling: Oversampling,
    activation: Activation,
    sizes: SignSizes,
    needs_grad_b: bool,
) -> tuple[Float[Tensor, "N C height width"], Float[Tensor, "C"]]:
    """The gradients: each filter's transposed, and between them the slope at u, which the signs tell.

    They do not depend on x but through the signs, so a second gradient flows to grad_y alone.
    """
    o, a = oversampling, activation
    _check(fu, fd, sizes.height, sizes.width, o, sizes)
    of_u = size_of_u(fd, o)
    codes = _unpacked(signs, of_u, o)
    grad_u = upfirdn2d_transposed.reference(grad_y, fd, down_resampling(of_u, o))
    grad_u = torch.where((codes & _IS_POSITIVE) != 0, a.gain * grad_u, a.gain * a.slope * grad_u)
    grad_u = torch.where((codes & _IS_BLOCKED) != 0, 0, grad_u)
    grad_x: Tensor = upfirdn2d_transposed.reference(grad_u, fu, up_resampling((sizes.height, sizes.width), *of_u, o))
    return grad_x, grad_x.sum((0, 2, 3)) if needs_grad_b else grad_x.new_empty(0)


@filtered_lrelu_signed.flops
def _flops(
    x: Tensor,
    fu: Tensor,
    fd: Tensor,
    b: Tensor | None,
    o: Oversampling,
    a: Activation,
    sizes: SignSizes,
    _: bool = False,
) -> int:
    images = x.shape[0] * x.shape[1]
    return up_flops(images, (sizes.height, sizes.width), fu, fd, o) + down_flops(images, fd, o)


@filtered_lrelu_signed_backward.flops
def _backward_flops(
    grad_y: Tensor, signs: Tensor, fu: Tensor, fd: Tensor, o: Oversampling, a: Activation, sizes: SignSizes, _: bool
) -> int:
    return transposed_flops(grad_y.shape[0] * grad_y.shape[1], (sizes.height, sizes.width), fu, fd, o)


@filtered_lrelu_signed.examples
def _examples() -> list[tuple[object, ...]]:
    """All pairs of factors, paddings of every remainder, a full filter, and a limit that is reached."""
    random = torch.Generator().manual_seed(0)
    x, b = torch.randn(2, 3, 9, 12, generator=random), torch.randn(3, generator=random)
    short, long = (torch.randn(2, taps, generator=random) / 4 for taps in (12, 24))
    full = torch.randn(12, 12, generator=random) / 6
    lrelu = Activation(math.sqrt(2), clamp=0.75)
    calls = [
        (short, short, b, Oversampling(9, 12, 2, 2, 11, 10, True, True, False), lrelu),
        (long, full, None, Oversampling(14, 19, 4, 2, 20, 19, True, False, True), Activation(1.5, 0.25)),
        (short, long, b, Oversampling(5, 6, 2, 4, 17, 18, True, True, False), lrelu),
    ]
    return [(x, fu, fd, bias, o, a, sign_sizes(9, 12, fd, o)) for fu, fd, bias, o, a in calls]


def _check(fu: Tensor, fd: Tensor, height: int, width: int, o: Oversampling, sizes: SignSizes) -> None:
    """Raise ArgumentValueError for filters that the kernels do not have, and for other sizes than the filters give."""
    taps = _SPAN * o.down
    is_full_allowed = _FACTORS.get((o.up, o.down))
    fits = is_full_allowed is not None and o.separable_up and fu.shape[1] == _SPAN * o.up
    if not fits or tuple(fd.shape) != ((2, taps) if o.separable_down or not is_full_allowed else (taps, taps)):
        raise ArgumentValueError(
            f"filtered_lrelu_signed(): the filters have the shapes {tuple(fu.shape)} and {tuple(fd.shape)}, up is {o.up} "
            f"and down {o.down}; expected {_SPAN} taps for each of their factor, which are 2 and 2, 4 and 2 or 2 and 4"
        )
    wanted = sign_sizes(height, width, fd, o)
    if (wanted.sign_rows, wanted.sign_columns) != (sizes.sign_rows, sizes.sign_columns):
        raise ArgumentValueError(
            f"filtered_lrelu_signed(): sign_rows and sign_columns are {sizes.sign_rows} and {sizes.sign_columns}, these "
            f"filters have signs of {wanted.sign_rows} x {wanted.sign_columns}"
        )


def _packed(u: Tensor, o: Oversampling, a: Activation, sizes: SignSizes) -> Tensor:
    """Return the signs of u, [N, C, sign_rows, sign_columns]."""
    positive = u > 0
    blocked = torch.zeros_like(positive)
    if a.clamp is not None:
        blocked = (torch.where(positive, a.gain, a.gain * a.slope) * u).abs() >= a.clamp
    codes = torch.where(blocked, _IS_BLOCKED, positive * _IS_POSITIVE).to(torch.uint8)
    top, left = (_shift(pad, o.up, o.down) for pad in (o.pad_y, o.pad_x))
    rows, columns = sizes.sign_rows * _BLOCK, sizes.sign_columns * _BLOCK
    around = (left, columns - left - u.shape[3], top, rows - top - u.shape[2])
    codes = functional.pad(codes, around, value=_IS_BLOCKED)
    codes = codes.reshape(*u.shape[:2], sizes.sign_rows, _BLOCK, sizes.sign_columns, _BLOCK)
    of_row = sum(codes[..., column] << (2 * column) for column in range(_BLOCK))
    assert isinstance(of_row, Tensor)
    return of_row.transpose(3, 4).contiguous().view(torch.int32).squeeze(-1)


def _unpacked(signs: Tensor, size: tuple[int, int], o: Oversampling) -> Tensor:
    """Return the two bits of each number of u as a number."""
    of_row = signs.contiguous().unsqueeze(-1).view(torch.uint8).transpose(3, 4)  # [N C sign_rows 4 sign_columns]
    codes = torch.stack([of_row >> (2 * column) & 3 for column in range(_BLOCK)], -1)
    codes = codes.reshape(*signs.shape[:2], signs.shape[2] * _BLOCK, signs.shape[3] * _BLOCK)
    top, left = (_shift(pad, o.up, o.down) for pad in (o.pad_y, o.pad_x))
    return codes[..., top : top + size[0], left : left + size[1]]
