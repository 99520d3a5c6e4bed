"""Defines upfirdn2d, filter2d, upsample2d, downsample2d and setup_filter, as StyleGAN's code calls them.

Names, arguments, defaults and results are those of `torch_utils.ops.upfirdn2d`, so that an import is all that changes;
`mmcv.ops.upfirdn2d` takes the same by position. Where an argument has two directions, x comes first.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from opsmith.errors import ArgumentValueError, ShapeError, describe
from opsmith.ops._arguments import as_tensor, check_choice, check_flags, check_numbers
from opsmith.ops._filters.arguments import Ints, check_images, read_factors, read_filter, read_padding, read_taps
from opsmith.ops.upfirdn2d.sized import upfirdn2d_sized

__all__ = ["downsample2d", "filter2d", "setup_filter", "upfirdn2d", "upsample2d"]


def setup_filter(
    f: Any,
    device: torch.device | str = "cpu",
    normalize: bool = True,
    flip_filter: bool = False,
    gain: float = 1,
    separable: bool | None = None,
) -> Tensor:
    """Return a filter for the functions below as a float32 tensor: [FH, FW], or [taps] where it is separable.

    `f` is a tensor, an array or a list of two, one or no dimensions; None stands for the identity. `normalize` makes its
    sum 1, `flip_filter` reverses it, `gain` is the factor that it has on an image. One dimension stands for a filter
    along both axes: it stays one if `separable`, by default from 8 taps on, and becomes its outer product if not.

    Raises ArgumentValueError or ArgumentTypeError for anything that is not a filter.
    """
    check_flags("setup_filter", normalize=normalize, flip_filter=flip_filter)
    if separable is not None:
        check_flags("setup_filter", separable=separable)
    check_numbers("setup_filter", gain=gain)
    try:
        device = torch.device(device)
    except Exception as error:
        raise ArgumentValueError(f"setup_filter(): device is {describe(device)}: {error}") from None
    taps = as_tensor("setup_filter", "f", 1 if f is None else f, torch.float32)
    if taps.ndim > 2 or taps.numel() == 0:
        raise ArgumentValueError(
            f"setup_filter(): f has the shape {tuple(taps.shape)}, expected [FH, FW], [taps] or []"
        )
    if taps.ndim == 0:
        taps = taps[None]
    if separable is None:
        separable = taps.ndim == 1 and taps.numel() >= 8
    if separable and taps.ndim == 2:
        raise ArgumentValueError("setup_filter(): separable=True takes the taps along one axis, found two dimensions")
    if taps.ndim == 1 and not separable:
        taps = torch.outer(taps, taps)
    if normalize:
        taps = taps / taps.sum()
    if flip_filter:
        taps = taps.flip(tuple(range(taps.ndim)))
    # A separable filter acts twice, so each time by the root.
    result: Tensor = taps * float(gain) ** (taps.ndim / 2)
    return result.to(device=device)


def upfirdn2d(
    x: Tensor,
    f: Tensor | None,
    up: Ints = 1,
    down: Ints = 1,
    padding: Ints = 0,
    flip_filter: bool = False,
    gain: float = 1,
    impl: str = "cuda",
) -> Tensor:
    """Upsample images by zeros, pad, filter and downsample them.

    x is [N, C, H, W], float16, bfloat16, float32 or float64; f is float32, [FH, FW], [taps] for a separable filter, or
    None for the identity. The result is [N, C, OH, OW] with OH = (H * up + padding - FH) // down + 1, in x's memory format.

    Parameters
    ----------
    up, down
        An int, or [x, y]. Upsampling puts up - 1 zeros behind each sample; downsampling keeps the first of each `down`.
    padding
        An int, [x, y], or [x before, x after, y before, y after], in samples after upsampling; negative ones crop.
    flip_filter
        False convolves (the filter is reversed), True correlates.
    gain
        A factor for the result.
    impl
        "cuda" is the operator, on every device; "ref" its definition in PyTorch.

    Raises ShapeError if the filter is longer than what it is applied to, ArgumentValueError and ArgumentTypeError for
    other numbers that mean nothing, DtypeError and DeviceError for tensors that do not fit, and GradientError for a filter
    that requires a gradient: there is one of x alone (of any order).
    """
    up_x, up_y = read_factors("upfirdn2d", "up", up)
    down_x, down_y = read_factors("upfirdn2d", "down", down)
    left, right, top, bottom = read_padding("upfirdn2d", padding)
    check_choice("upfirdn2d", "impl", impl, ("cuda", "ref"))
    check_images("upfirdn2d", x)
    check_flags("upfirdn2d", flip_filter=flip_filter)
    check_numbers("upfirdn2d", gain=gain)
    f = read_filter("upfirdn2d", "f", x, f)
    taps_y, taps_x = read_taps("upfirdn2d", "f", f)
    height, width = x.shape[2:]
    sizes = []
    for axis, padded, taps, factor in (
        ("y", height * up_y + top + bottom, taps_y, down_y),
        ("x", width * up_x + left + right, taps_x, down_x),
    ):
        if padded < taps:
            raise ShapeError(
                f"upfirdn2d(): along {axis} the filter has {taps} taps, but after upsampling and padding there are "
                f"{padded} samples"
            )
        sizes.append((padded - taps) // factor + 1)
    function = upfirdn2d_sized.reference if impl == "ref" else upfirdn2d_sized
    result: Tensor = function(
        x,
        f.expand(2, -1) if f.ndim == 1 else f,
        height,
        width,
        *sizes,
        up_y,
        up_x,
        down_y,
        down_x,
        top,
        left,
        f.ndim == 1,
        bool(flip_filter),
        float(gain),
    )
    return result


def filter2d(
    x: Tensor, f: Tensor | None, padding: Ints = 0, flip_filter: bool = False, gain: float = 1, impl: str = "cuda"
) -> Tensor:
    """Filter images; without padding the size stays as it is. `padding` is added to what that takes; else as upfirdn2d."""
    left, right, top, bottom = read_padding("upfirdn2d", padding)
    taps_y, taps_x = (1, 1) if f is None else read_taps("upfirdn2d", "f", f)
    margins = (
        left + taps_x // 2,
        right + (taps_x - 1) // 2,
        top + taps_y // 2,
        bottom + (taps_y - 1) // 2,
    )
    return upfirdn2d(x, f, padding=margins, flip_filter=flip_filter, gain=gain, impl=impl)


def upsample2d(
    x: Tensor,
    f: Tensor | None,
    up: Ints = 2,
    padding: Ints = 0,
    flip_filter: bool = False,
    gain: float = 1,
    impl: str = "cuda",
) -> Tensor:
    """Upsample images to `up` times their size; the zeros' share of the brightness is made up for. Else as upfirdn2d."""
    up_x, up_y = read_factors("upfirdn2d", "up", up)
    left, right, top, bottom = read_padding("upfirdn2d", padding)
    taps_y, taps_x = (1, 1) if f is None else read_taps("upfirdn2d", "f", f)
    margins = (
        left + (taps_x + up_x - 1) // 2,
        right + (taps_x - up_x) // 2,
        top + (taps_y + up_y - 1) // 2,
        bottom + (taps_y - up_y) // 2,
    )
    check_numbers("upfirdn2d", gain=gain)
    return upfirdn2d(x, f, up, 1, margins, flip_filter, float(gain) * up_x * up_y, impl)


def downsample2d(
    x: Tensor,
    f: Tensor | None,
    down: Ints = 2,
    padding: Ints = 0,
    flip_filter: bool = False,
    gain: float = 1,
    impl: str = "cuda",
) -> Tensor:
    """Downsample images to one `down`-th of their size, rounded down. Else as upfirdn2d."""
    down_x, down_y = read_factors("upfirdn2d", "down", down)
    left, right, top, bottom = read_padding("upfirdn2d", padding)
    taps_y, taps_x = (1, 1) if f is None else read_taps("upfirdn2d", "f", f)
    margins = (
        left + (taps_x - down_x + 1) // 2,
        right + (taps_x - down_x) // 2,
        top + (taps_y - down_y + 1) // 2,
        bottom + (taps_y - down_y) // 2,
    )
    return upfirdn2d(x, f, 1, down, margins, flip_filter, gain, impl)
