"""Describes a call of filtered_lrelu for all of its operators: its numbers, and how x becomes u and u the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from opsmith.ops.upfirdn2d.sized import Resampling, check_filtering, filter_flops, upfirdn2d_sized

__all__ = [
    "Activation",
    "Oversampling",
    "down_flops",
    "down_resampling",
    "size_of_u",
    "transposed_flops",
    "up_flops",
    "up_resampling",
    "upsampled",
]


@dataclass(frozen=True)
class Oversampling:
    """The two filters of a call: the result's size, factors and paddings, and how each filter is applied."""

    out_height: int
    out_width: int
    up: int = 1
    down: int = 1
    pad_y: int = 0
    pad_x: int = 0
    separable_up: bool = False
    separable_down: bool = False
    flip: bool = False


@dataclass(frozen=True)
class Activation:
    """What is between the filters: leaky ReLU with a slope, a gain behind it, and a limit behind that."""

    gain: float = 1.0
    slope: float = 0.2
    clamp: float | None = None


def upsampled(x: Tensor, fu: Tensor, fd: Tensor, b: Tensor | None, oversampling: Oversampling) -> Tensor:
    """Return u; raises ArgumentValueError for invalid numbers."""
    o = oversampling
    check_filtering(fu, (o.up, o.up), (1, 1), (o.pad_y, o.pad_x), separable=o.separable_up)
    check_filtering(fd, (1, 1), (o.down, o.down), (0, 0), separable=o.separable_down)
    height, width = size_of_u(fd, o)
    biased = x if b is None else x + b[:, None, None]
    u: Tensor = upfirdn2d_sized.reference(biased, fu, up_resampling(x.shape[2:], height, width, o))
    return u


def size_of_u(fd: Tensor, o: Oversampling) -> tuple[int, int]:
    """Return how many rows and columns of u the result needs."""
    taps = (fd.shape[1], fd.shape[1]) if o.separable_down else fd.shape
    height, width = (max(size, 1) for size in (o.out_height, o.out_width))
    return (height - 1) * o.down + taps[0], (width - 1) * o.down + taps[1]


def up_resampling(size: Sequence[int], height: int, width: int, o: Oversampling) -> Resampling:
    """Return how images of a size become u, of height and width."""
    return Resampling(
        size[0],
        size[1],
        height,
        width,
        up_y=o.up,
        up_x=o.up,
        pad_y=o.pad_y,
        pad_x=o.pad_x,
        separable=o.separable_up,
        flip=o.flip,
        gain=float(o.up**2),
    )


def down_resampling(size: Sequence[int], o: Oversampling) -> Resampling:
    """Return how u, of a size, becomes the result."""
    return Resampling(
        size[0],
        size[1],
        o.out_height,
        o.out_width,
        down_y=o.down,
        down_x=o.down,
        separable=o.separable_down,
        flip=o.flip,
    )


def up_flops(images: int, size: tuple[int, int], fu: Tensor, fd: Tensor, o: Oversampling) -> int:
    """Return the operations that make u of images of a size."""
    return filter_flops(images, size, size_of_u(fd, o), (o.up, o.up), fu, separable=o.separable_up)


def down_flops(images: int, fd: Tensor, o: Oversampling) -> int:
    """Return the operations that make the results of u."""
    return filter_flops(images, size_of_u(fd, o), (o.out_height, o.out_width), (1, 1), fd, separable=o.separable_down)


def transposed_flops(images: int, size: tuple[int, int], fu: Tensor, fd: Tensor, o: Oversampling) -> int:
    """Return the operations of both transposed filters, to gradients of images of a size."""
    of_u, out = size_of_u(fd, o), (o.out_height, o.out_width)
    down = filter_flops(images, out, of_u, (o.down, o.down), fd, separable=o.separable_down)
    return down + filter_flops(images, of_u, size, (1, 1), fu, separable=o.separable_up)
