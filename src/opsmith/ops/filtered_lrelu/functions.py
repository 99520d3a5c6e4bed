"""Defines filtered_lrelu, as StyleGAN3's code calls it."""

from __future__ import annotations

import math

from torch import Tensor

from opsmith.errors import ArgumentValueError, ShapeError
from opsmith.ops._arguments import check_choice, check_flags, check_numbers, check_tensors
from opsmith.ops._filters.arguments import (
    Ints,
    check_clamp,
    check_images,
    read_factors,
    read_filter,
    read_padding,
    read_taps,
)
from opsmith.ops.filtered_lrelu.signed import filtered_lrelu_signed, has_signs, sign_blocks
from opsmith.ops.filtered_lrelu.sized import filtered_lrelu_sized

__all__ = ["filtered_lrelu"]

_NAME = "filtered_lrelu"


def filtered_lrelu(
    x: Tensor,
    fu: Tensor | None = None,
    fd: Tensor | None = None,
    b: Tensor | None = None,
    up: int = 1,
    down: int = 1,
    padding: Ints = 0,
    gain: float = math.sqrt(2),
    slope: float = 0.2,
    clamp: float | None = None,
    flip_filter: bool = False,
    impl: str = "cuda",
) -> Tensor:
    """Add a bias, upsample by a filter, apply leaky ReLU, a gain and a clamp, and downsample by a filter, in one pass.

    Names, arguments, defaults and results are those of `torch_utils.ops.filtered_lrelu`: the nonlinearity of StyleGAN3
    (Karras et al., "Alias-Free Generative Adversarial Networks", NeurIPS 2021, section 3.2), which is applied at a higher
    sampling rate so that what it makes above the band can be filtered away. x is [N, C, H, W], float16, bfloat16, float32
    or float64; the result is [N, C, OH, OW], OH = (H * up + padding - (FUH - 1) - (FDH - 1) + down - 1) // down, in x's
    memory format. Everything between x and the result is float32, or float64 for float64.

    Parameters
    ----------
    fu, fd
        The filters in front of the nonlinearity and behind it, float32: [FH, FW], [taps] for a separable one, or None for
        the identity. `setup_filter` makes them.
    b
        The bias, [C], of x's type; None for none. It is added to x, not to the padding.
    up, down
        The factors, 1 to 256. Upsampling puts up - 1 zeros behind each sample and multiplies by up ** 2.
    padding
        An int, [x, y], or [x before, x after, y before, y after], in samples after upsampling; negative ones crop.
    gain, slope
        The factor behind leaky ReLU, and its slope below 0.
    clamp
        What goes into the second filter is kept in [-clamp, clamp]; None keeps it as it is.
    flip_filter
        False convolves (the filters are reversed), True correlates.
    impl
        "cuda" is the operator, on every device; "ref" its definition in PyTorch.

    Raises
    ------
    ShapeError
        Where the filters are longer than what they are applied to, and for a bias that does not fit.
    ArgumentValueError, ArgumentTypeError
        For other numbers that mean nothing.
    DtypeError, DeviceError
        For tensors that do not fit.
    GradientError
        For a filter that requires a gradient: there are those of x and b alone (of any order).
    """
    check_choice(_NAME, "impl", impl, ("cuda", "ref"))
    check_images(_NAME, x)
    check_tensors(_NAME, optional=("b",), b=b)
    check_flags(_NAME, flip_filter=flip_filter)
    check_numbers(_NAME, gain=gain, slope=slope)
    if b is not None and (b.ndim != 1 or b.shape[0] != x.shape[1]):
        raise ShapeError(
            f"{_NAME}(): b has the shape {tuple(b.shape)}, expected ({x.shape[1]},): x has the shape {tuple(x.shape)}"
        )
    check_clamp(clamp, _NAME)
    factor, divisor = _factor("up", up), _factor("down", down)
    left, right, top, bottom = read_padding(_NAME, padding)
    fu, fd = read_filter(_NAME, "fu", x, fu), read_filter(_NAME, "fd", x, fd)
    sizes = []
    for axis, size, margin, taps_up, taps_down in zip(
        "yx",
        x.shape[2:],
        (top + bottom, left + right),
        read_taps(_NAME, "fu", fu),
        read_taps(_NAME, "fd", fd),
        strict=True,
    ):
        padded, needed = size * factor + margin, taps_up + taps_down - 1
        if padded < needed:
            raise ShapeError(
                f"{_NAME}(): along {axis} the filters take {needed} samples, but after upsampling and padding there are "
                f"{padded}"
            )
        sizes.append((padded - needed) // divisor + 1)
    filters = [f.expand(2, -1) if f.ndim == 1 else f for f in (fu, fd)]
    height, width = sizes
    numbers = (height, width, factor, divisor, top, left, fu.ndim == 1, fd.ndim == 1, bool(flip_filter))
    activation = (float(gain), float(slope), None if clamp is None else float(clamp))
    if impl == "cuda" and has_signs(x, fu, fd, factor, divisor):
        blocks = [
            sign_blocks((out - 1) * divisor + taps, pad, factor, divisor)
            for out, taps, pad in zip(sizes, read_taps(_NAME, "fd", fd), (top, left), strict=True)
        ]
        with_signs: Tensor = filtered_lrelu_signed(x, *filters, b, *numbers, *activation, *x.shape[2:], *blocks)
        return with_signs
    function = filtered_lrelu_sized.reference if impl == "ref" else filtered_lrelu_sized
    result: Tensor = function(x, *filters, b, *numbers, *activation)
    return result


def _factor(name: str, value: int) -> int:
    x, y = read_factors(_NAME, name, value)
    if x != y:
        raise ArgumentValueError(f"{_NAME}(): {name} is {value!r:.60}, expected one factor for both axes")
    return x
