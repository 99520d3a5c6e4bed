"""Defines upfirdn2d with all sizes as arguments, and its transpose. Each is the gradient of the other."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float32
from torch import Tensor
from torch.nn import functional

import opsmith
from opsmith.errors import ArgumentValueError
from opsmith.ops._filters.arguments import MOST_UP_DOWN

__all__ = ["Resampling", "check_filtering", "filter_flops", "upfirdn2d_sized", "upfirdn2d_transposed"]

_MOST_PADDING = 1 << 31


# Both sizes of an image are arguments, although the tensor has one of them: so each operator can give the other all that
# it needs, and a gradient keeps no image. A backward's sizes could not be told from its own input's, because a division
# has rounded them.
@dataclass(frozen=True)
class Resampling:
    """The numbers of a call: sizes, factors and paddings along both axes, and how the filter is applied."""

    height: int
    width: int
    out_height: int
    out_width: int
    up_y: int = 1
    up_x: int = 1
    down_y: int = 1
    down_x: int = 1
    pad_y: int = 0
    pad_x: int = 0
    separable: bool = False
    flip: bool = False
    gain: float = 1.0


@opsmith.op(
    cpu="upfirdn2d.cpp",
    cuda="upfirdn2d.cu",
    outputs="out",
    nondifferentiable="f",
    preserve_format={"out": "x"},
    batch=("N", "C"),
)
def upfirdn2d_sized(
    x: Float[Tensor, "N C height width"], f: Float32[Tensor, "FH FW"], resampling: Resampling
) -> Float[Tensor, "N C out_height out_width"]:
    """Upsample, pad, filter and downsample images. Call it through `upfirdn2d`.

    Along an axis, with x upsampled by zeros and taken for zero outside,

        out[i] = gain * sum over k of g[k] * upsampled[i * down + k - pad]

    where g is f, reversed unless `flip`. A filter of two dimensions is f[y][x]; a separable one has two rows, the taps
    along y and those along x. A NaN among the taps makes everything NaN, whether or not the tap meets a sample.
    """
    r = resampling
    size, up, down, pad = (r.out_height, r.out_width), (r.up_y, r.up_x), (r.down_y, r.down_x), (r.pad_y, r.pad_x)
    return _upfirdn(x, f, size, up, down, pad, separable=r.separable, flip=r.flip, gain=r.gain)


@upfirdn2d_sized.backward(
    cpu="upfirdn2d.cpp", cuda="upfirdn2d.cu", nondifferentiable="f", preserve_format={"grad_x": "grad_out"}
)
def upfirdn2d_transposed(
    grad_out: Float[Tensor, "N C out_height out_width"], f: Float32[Tensor, "FH FW"], resampling: Resampling
) -> Float[Tensor, "N C height width"]:
    """The gradient of an image: the same filtering with up and down exchanged and the filter reversed.

    The padding follows from `up * i = down * o + k - pad`, read for i and reversed taps: taps - 1 - pad.
    """
    r = resampling
    taps = (f.shape[1], f.shape[1]) if r.separable else f.shape
    size, up, down = (r.height, r.width), (r.down_y, r.down_x), (r.up_y, r.up_x)
    pad = (taps[0] - 1 - r.pad_y, taps[1] - 1 - r.pad_x)
    return _upfirdn(grad_out, f, size, up, down, pad, separable=r.separable, flip=not r.flip, gain=r.gain)


upfirdn2d_transposed.gradient_is(upfirdn2d_sized, x="grad_grad_x", out="grad_grad_out")


@upfirdn2d_sized.flops
def _flops(x: Tensor, f: Tensor, resampling: Resampling) -> int:
    r = resampling
    sizes = (r.height, r.width), (r.out_height, r.out_width)
    return filter_flops(x.shape[0] * x.shape[1], *sizes, (r.up_y, r.up_x), f, separable=r.separable)


@upfirdn2d_transposed.flops
def _transposed_flops(grad_out: Tensor, f: Tensor, resampling: Resampling) -> int:
    r, images = resampling, grad_out.shape[0] * grad_out.shape[1]
    sizes = (r.out_height, r.out_width), (r.height, r.width)
    return filter_flops(images, *sizes, (r.down_y, r.down_x), f, separable=r.separable)


@upfirdn2d_sized.examples
def _examples() -> list[tuple[Tensor, Tensor, Resampling]]:
    """What the arguments' defaults do not show: each direction with factors, a padding and a kind of filter of its own."""
    random = torch.Generator().manual_seed(0)
    x, full = torch.randn(2, 3, 9, 20, generator=random), torch.randn(4, 3, generator=random)
    separable = torch.randn(2, 7, generator=random)
    one = Resampling(9, 20, 18, 40, 2, 2, 1, 1, 2, 1)
    two = Resampling(9, 20, 4, 7, 1, 1, 2, 3, 0, 1, flip=True, gain=-2.0)
    three = Resampling(9, 20, 7, 31, 3, 4, 4, 3, -2, 6, separable=True, gain=0.5)
    return [(x, full, one), (x, full, two), (x, separable, three)]


_Pair = tuple[int, int]


def _upfirdn(
    x: Tensor, f: Tensor, size: _Pair, up: _Pair, down: _Pair, pad: _Pair, *, separable: bool, flip: bool, gain: float
) -> Tensor:
    """What the operators compute, as PyTorch's convolution of each channel by itself."""
    check_filtering(f, up, down, pad, separable=separable)
    batch, channels = x.shape[:2]
    if x.numel() == 0 or 0 in size:
        return x.new_zeros(batch, channels, *size)
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    taps = f.to(wide)
    if not flip:
        taps = taps.flip(1) if separable else taps.flip(0, 1)
    lengths = (f.shape[1], f.shape[1]) if separable else f.shape
    padded = ((size[0] - 1) * down[0] + lengths[0], (size[1] - 1) * down[1] + lengths[1])
    x = _place(_stuff(x, up), pad, padded)

    def convolve(images: Tensor, weight: Tensor, stride: _Pair) -> Tensor:
        weight = weight.to(x.dtype)
        if images.device.type == "cpu":
            # As images of one channel: with a group for each, oneDNN 3.10 was still making a kernel after a minute on an
            # Intel Xeon with AVX-512 FP16. On a GPU images of one channel are cuDNN's, which may take TF32.
            found = functional.conv2d(images.flatten(0, 1)[:, None], weight[None, None], stride=stride)
            return found.reshape(batch, channels, *found.shape[2:])
        return functional.conv2d(images, weight.expand(channels, 1, *weight.shape), stride=stride, groups=channels)

    if not separable:
        return convolve(x, taps * gain, down)
    return convolve(convolve(x, taps[0, :, None] * gain, (down[0], 1)), taps[1, None, :], (1, down[1]))


def filter_flops(images: int, size: _Pair, out: _Pair, up: _Pair, f: Tensor, *, separable: bool) -> int:
    """Return the operations of a filtering, two for each tap that meets a sample.

    The definition convolves the inserted zeros as well, which none of the kernels does. Of a separable filter's two orders
    it is the one that takes less.
    """
    lengths = (f.shape[1], f.shape[1]) if separable else (f.shape[0], f.shape[1])
    y, x = (-(-length // factor) for length, factor in zip(lengths, up, strict=True))
    if not separable:
        return 2 * images * out[0] * out[1] * y * x
    y_first = out[0] * size[1] * y + out[0] * out[1] * x
    x_first = size[0] * out[1] * x + out[0] * out[1] * y
    return 2 * images * min(y_first, x_first)


def check_filtering(f: Tensor, up: _Pair, down: _Pair, pad: _Pair, *, separable: bool) -> None:
    """Raise ArgumentValueError for a filter, factors and a padding, each (y, x), that mean nothing."""
    if separable and f.shape[0] != 2:
        raise ArgumentValueError(f"a separable filter has two rows, its taps along y and along x; found {f.shape[0]}")
    if f.numel() == 0:
        raise ArgumentValueError(f"the filter has no taps: {tuple(f.shape)}")
    if min(*up, *down) < 1 or max(*up, *down) > MOST_UP_DOWN:
        raise ArgumentValueError(f"up and down can be 1 to {MOST_UP_DOWN}; found {up} and {down} (y, x)")
    if max(map(abs, pad)) > _MOST_PADDING:
        raise ArgumentValueError(f"a padding has at most 31 bits; found {pad} (y, x)")


def _stuff(x: Tensor, up: _Pair) -> Tensor:
    """Put zeros behind each sample, to `up` times the size."""
    if up == (1, 1):
        return x
    batch, channels, height, width = x.shape
    stuffed = functional.pad(x.reshape(batch, channels, height, 1, width, 1), (0, up[1] - 1, 0, 0, 0, up[0] - 1))
    return stuffed.reshape(batch, channels, height * up[0], width * up[1])


def _place(x: Tensor, pad: _Pair, size: _Pair) -> Tensor:
    """Return the samples from -pad on, zeros outside of x. Torch's own padding refuses to leave nothing of x."""
    margins: tuple[int, ...] = ()
    for dim in (0, 1):
        begin = min(max(-pad[dim], 0), x.shape[dim + 2])
        end = max(min(size[dim] - pad[dim], x.shape[dim + 2]), begin)
        x = x.narrow(dim + 2, begin, end - begin)
        before = min(max(pad[dim], 0), size[dim] - (end - begin))
        margins = (before, size[dim] - (end - begin) - before, *margins)
    return functional.pad(x, margins)
