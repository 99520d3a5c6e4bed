"""Collects what StyleGAN's networks import from `mmcv.ops`, with mmcv's argument names.

`from mmcv.ops import bias_act, upfirdn2d` becomes `from opsmith.ops.mmcv import bias_act, upfirdn2d`.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from opsmith.ops.bias_act import FusedBiasLeakyReLU, fused_bias_leakyrelu
from opsmith.ops.bias_act import bias_act as _bias_act
from opsmith.ops.stylegan.conv2d_gradfix import conv2d, conv_transpose2d
from opsmith.ops.upfirdn2d import upfirdn2d as _upfirdn2d

__all__ = ["FusedBiasLeakyReLU", "bias_act", "conv2d", "conv_transpose2d", "fused_bias_leakyrelu", "upfirdn2d"]


def bias_act(
    input: Tensor,  # noqa: A002 -- mmcv's name
    bias: Tensor | None = None,
    dim: int = 1,
    act: str = "linear",
    alpha: float | None = None,
    gain: float | None = None,
    clamp: float | None = None,
    use_custom_op: bool = True,
) -> Tensor:
    """`opsmith.ops.bias_act.bias_act`; without `use_custom_op` its definition in PyTorch."""
    return _bias_act(input, bias, dim, act, alpha, gain, clamp, impl="cuda" if use_custom_op else "ref")


def upfirdn2d(
    input: Tensor,  # noqa: A002 -- mmcv's name
    filter: Tensor | None,  # noqa: A002 -- mmcv's name
    up: int | Sequence[int] = 1,
    down: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    flip_filter: bool = False,
    gain: float = 1,
    use_custom_op: bool = True,
) -> Tensor:
    """`opsmith.ops.upfirdn2d.upfirdn2d`; without `use_custom_op` its definition in PyTorch."""
    return _upfirdn2d(input, filter, up, down, padding, flip_filter, gain, impl="cuda" if use_custom_op else "ref")
