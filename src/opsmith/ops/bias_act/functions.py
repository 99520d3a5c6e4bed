"""Defines bias_act and fused_bias_leakyrelu, as StyleGAN's and mmcv's code call them."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from opsmith.errors import ShapeError
from opsmith.ops._arguments import check_choice, check_ints, check_numbers, check_tensors
from opsmith.ops._filters.arguments import check_clamp
from opsmith.ops.bias_act.activations import activation_of
from opsmith.ops.bias_act.operator import bias_activation

__all__ = ["bias_act", "fused_bias_leakyrelu"]


def bias_act(
    x: Tensor,
    b: Tensor | None = None,
    dim: int = 1,
    act: str = "linear",
    alpha: float | None = None,
    gain: float | None = None,
    clamp: float | None = None,
    impl: str = "cuda",
) -> Tensor:
    """Add a bias, apply an activation, multiply by a gain and clamp, in one pass.

    Names, arguments, defaults and results are those of `torch_utils.ops.bias_act`. float16, bfloat16, float32 or
    float64; the arithmetic is float32 or wider.

    Parameters
    ----------
    x
        A tensor of any shape. channels_last stays so.
    b
        The bias, [x.shape[dim]], of x's type; None for none.
    dim
        The dimension of x that the bias belongs to; it may be negative. Without a bias it does not matter.
    act
        "linear", "relu", "lrelu", "tanh", "sigmoid", "elu", "selu", "softplus" or "swish".
    alpha
        The slope of lrelu below 0, 0.2 by default; the other activations have none.
    gain
        The factor behind the activation: by default the root of 2 for relu, lrelu and swish, and 1 for the others.
    clamp
        Results are kept in [-clamp, clamp]; None keeps them as they are. Gradients are 0 where y reaches a limit.
    impl
        "cuda" is the operator, on every device; "ref" its definition in PyTorch.

    Raises
    ------
    ShapeError, DtypeError, DeviceError
        For a bias that does not fit x.
    ArgumentValueError
        For an unknown activation or impl, and a clamp below 0.
    ArgumentTypeError
        For an x or b that is not a tensor, a dim that is not an int, and an alpha, gain or clamp that is not a number.
    """
    check_choice("bias_act", "impl", impl, ("cuda", "ref"))
    if not isinstance(x, Tensor) or not (b is None or isinstance(b, Tensor)):
        check_tensors("bias_act", optional=("b",), x=x, b=b)
    check_clamp(clamp)
    defaults = activation_of(act)
    alpha, gain = defaults.alpha if alpha is None else alpha, defaults.gain if gain is None else gain
    if type(alpha) is not float or type(gain) is not float:
        check_numbers("bias_act", alpha=alpha, gain=gain)
    # Without a bias any dimension will do.
    dim = min(x.ndim - 1, 1) if b is None else _dimension(x, b, dim)

    def apply(images: Tensor) -> Tensor:
        function = bias_activation.reference if impl == "ref" else bias_activation
        result: Tensor = function(
            images,
            b,
            act,
            float(alpha),
            float(gain),
            None if clamp is None else float(clamp),
        )
        return result

    if dim == 1:
        order = _channels_last(x)
        if order is None:
            return apply(x)
        # Channels are next to each other: the last dimension of a matrix in row-major order.
        moved = x.permute(order)
        matrix = apply(moved.reshape(-1, x.shape[1]))
        return matrix.reshape(moved.shape).permute([order.index(place) for place in range(x.ndim)])
    # What lies before `dim` are samples, what lies behind it is a channel's elements.
    if dim > 1:
        return apply(x.flatten(0, dim - 1)).reshape(x.shape)
    return apply(x.reshape(1, *(x.shape or (1,)))).reshape(x.shape)


def fused_bias_leakyrelu(
    input: Tensor,  # noqa: A002 -- mmcv's name
    bias: Tensor,
    negative_slope: float = 0.2,
    scale: float = math.sqrt(2),
) -> Tensor:
    """Return scale * leaky_relu(input + bias), as `mmcv.ops.fused_bias_leakyrelu` does: bias_act by its names."""
    return bias_act(input, bias, act="lrelu", alpha=negative_slope, gain=scale)


def _dimension(x: Tensor, b: Tensor, dim: Any) -> int:
    """Return the bias' dimension, counted from the front."""
    check_ints("bias_act", dim=dim)
    if not -x.ndim <= dim < x.ndim:
        raise ShapeError(f"bias_act(): dim is {dim}, but x has {x.ndim} dimensions")
    place: int = dim % x.ndim
    if b.ndim != 1 or b.shape[0] != x.shape[place]:
        raise ShapeError(
            f"bias_act(): b has the shape {tuple(b.shape)}, expected ({x.shape[place]},): x has the shape "
            f"{tuple(x.shape)}, and dim is {place}"
        )
    return place


def _channels_last(x: Tensor) -> tuple[int, ...] | None:
    """Return the order of dimensions that makes a channels_last tensor row-major, or None for any other."""
    if x.is_contiguous() or x.ndim not in (4, 5):
        return None
    order = (0, *range(2, x.ndim), 1)
    return order if x.permute(order).is_contiguous() else None  # torch.vmap knows no other question about strides
