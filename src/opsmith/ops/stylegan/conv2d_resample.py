"""`torch_utils.ops.conv2d_resample`: a convolution behind upsampling or before downsampling, filtered by upfirdn2d."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import conv2d, conv_transpose2d, pad

from opsmith.errors import ArgumentTypeError, ArgumentValueError, DtypeError, ShapeError
from opsmith.ops._arguments import check_flags, check_ints, check_storage
from opsmith.ops._filters.arguments import MOST_UP_DOWN, Ints, read_padding, read_taps
from opsmith.ops.upfirdn2d import upfirdn2d

__all__ = ["conv2d_resample"]

_NAME = "conv2d_resample"


def conv2d_resample(
    x: Tensor,
    w: Tensor,
    f: Tensor | None = None,
    up: int = 1,
    down: int = 1,
    padding: Ints = 0,
    groups: int = 1,
    flip_weight: bool = True,
    flip_filter: bool = False,
    impl: str = "cuda",
) -> Tensor:
    """Pad images, upsample them with a filter, convolve them, and downsample them with the filter.

    With the padding that a filter takes counted in, an axis of n samples becomes (n * up + padding - KH + 1) / down, rounded
    up. Padding happens once and all else sees it, so the steps can change their order, and go in the cheapest.

    Parameters
    ----------
    x
        Images [N, C, H, W].
    w
        Weights [O, C / groups, KH, KW].
    f
        What `setup_filter` returns, for upsampling and for downsampling; None filters nothing.
    up, down
        Factors, for both axes.
    padding
        An int, [x, y], or [x before, x after, y before, y after], in samples after upsampling; negative ones crop.
    flip_weight
        True correlates, as PyTorch's convolutions do; False convolves.
    flip_filter
        The same of the filter, as in `upfirdn2d`.
    impl
        As in `upfirdn2d`. StyleGAN's function does not have it.

    Raises ShapeError, ArgumentTypeError and ArgumentValueError for what means nothing, and what PyTorch's convolutions
    and `upfirdn2d` raise.
    """
    if not all(isinstance(tensor, Tensor) and tensor.ndim == 4 for tensor in (x, w)):
        found = " and ".join(f"{t.ndim} dimensions" if isinstance(t, Tensor) else type(t).__name__ for t in (x, w))
        raise ShapeError(f"{_NAME}(): x and w have {found}, expected tensors of four dimensions")
    for name, factor in (("up", up), ("down", down)):
        if not isinstance(factor, int) or isinstance(factor, bool):
            raise ArgumentTypeError(f"{_NAME}(): {name} is {factor!r}, expected an int")
        if not 1 <= factor <= MOST_UP_DOWN:
            raise ArgumentValueError(f"{_NAME}(): {name} is {factor!r:.60}, expected 1 or more, up to {MOST_UP_DOWN}")
    check_ints(_NAME, groups=groups)
    if groups < 1 or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups or 0 in (*w.shape, *x.shape[1:]):
        raise ShapeError(
            f"{_NAME}(): x is {list(x.shape)}, w is {list(w.shape)} and groups {groups}, expected w [O, C / groups, "
            "KH, KW], O a multiple of groups, and no size 0"
        )
    if x.dtype != w.dtype or not x.is_floating_point():
        raise DtypeError(f"{_NAME}(): x is {x.dtype} and w {w.dtype}, expected one floating type")
    check_flags(_NAME, flip_weight=flip_weight)
    check_storage(_NAME, x=x, w=w)
    left, right, top, bottom = margins = _margins(f, up, down, padding)
    weight = w if flip_weight else w.flip(2, 3)
    height, width = w.shape[2:]

    def filtered(images: Tensor, margins: tuple[int, ...], up: int = 1, down: int = 1, gain: float = 1) -> Tensor:
        return upfirdn2d(images, f, up, down, margins, flip_filter, gain, impl)

    if up == 1 and down == 1:
        if left == right >= 0 and top == bottom >= 0:
            return conv2d(x, weight, padding=(top, left), groups=groups)
        return conv2d(pad(x, margins), weight, groups=groups)
    if height == width == 1 and up == 1:
        return conv2d(filtered(x, margins, down=down), weight, groups=groups)
    if height == width == 1 and down == 1:
        return filtered(conv2d(x, weight, groups=groups), margins, up=up, gain=up**2)
    if up == 1:
        return conv2d(filtered(x, margins), weight, stride=down, groups=groups)
    # A transposed convolution is the convolution of an upsampled image, without its zeros. It begins kernel - 1 samples
    # before the first of x and ends kernel - 1 behind the last, which up - 1 zeros should have followed.
    flipped = weight.flip(2, 3).unflatten(0, (groups, -1)).transpose(1, 2).flatten(0, 1)
    x = conv_transpose2d(x, flipped, stride=up, groups=groups)
    x = filtered(x, (left - width + 1, right - width + up, top - height + 1, bottom - height + up), gain=up**2)
    return x if down == 1 else filtered(x, (0, 0, 0, 0), down=down)


def _margins(f: Tensor | None, up: int, down: int, padding: Ints) -> tuple[int, ...]:
    """Return the padding before and after along x and y, with what the filter takes: sizes change by the factors alone."""
    taps_y, taps_x = (1, 1) if f is None else read_taps(_NAME, "f", f)
    before_x, after_x, before_y, after_y = read_padding(_NAME, padding)
    for factor, by_up in ((up, True), (down, False)):
        if factor > 1:
            before_x += (taps_x + factor - 1 if by_up else taps_x - factor + 1) // 2
            before_y += (taps_y + factor - 1 if by_up else taps_y - factor + 1) // 2
            after_x += (taps_x - factor) // 2
            after_y += (taps_y - factor) // 2
    return before_x, after_x, before_y, after_y
