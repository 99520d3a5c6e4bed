"""Defines ms_deform_attn, as Deformable DETR, mmcv and transformers call it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from opsmith.errors import ArgumentTypeError, describe
from opsmith.ops._arguments import TensorShapeError, check_promotable, check_tensors, is_int
from opsmith.ops.ms_deform_attn.sampled import ms_deform_attn_sampled

__all__ = ["MSDeformAttnFunction", "Shapes", "ms_deform_attn"]

Shapes = Tensor | Sequence[Sequence[int]]


def ms_deform_attn(
    value: Tensor,
    spatial_shapes: Shapes,
    level_start_index: Tensor | None,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    im2col_step: int | None = None,
) -> Tensor:
    """Return multi-scale deformable attention, [N, Q, heads * channels].

    Zhu et al., "Deformable DETR" (https://arxiv.org/abs/2010.04159), equation 3: for each query and head the sum, over the
    points of all levels, of attention weight times the feature there, interpolated bilinearly between pixels. What lies
    outside of a level is zero. It is called as the `apply` of `MSDeformAttnFunction` in Deformable DETR and of
    `MultiScaleDeformableAttnFunction` in mmcv.

    Parameters
    ----------
    value
        The features of all levels, [N, S, heads, channels], a level's pixels row by row; float16, bfloat16, float32 or
        float64. The result has this type. Places and sums are computed in float32, for float64 in float64.
    spatial_shapes
        (height, width) of each level: a tensor [L, 2] on the device of `value`, or numbers, which are copied there.
    level_start_index
        Where each level begins among the S pixels, [L]; None where each follows the one before.
    sampling_locations
        [N, Q, heads, L, points, 2], as (x, y) from 0 to 1 within the level. Where their type or that of the weights is
        wider than the value's, all is computed in the wider one.
    attention_weights
        [N, Q, heads, L, points].
    im2col_step
        Has no meaning here: all images are worked on at once.

    There are gradients of value, locations and weights, of any order, which are the same in each run. A location that is
    NaN, or outside of its level by half a pixel or more, gives zero.

    Raises a ShapeError that is an AssertionError where `spatial_shapes` are numbers whose pixels are not S; numbers in the
    memory of a GPU are not looked at, because that would wait for it. ArgumentTypeError, DtypeError, ShapeError and
    DeviceError for tensors that do not fit together.
    """
    check_tensors(
        "ms_deform_attn",
        optional=("level_start_index",),
        value=value,
        level_start_index=level_start_index,
        sampling_locations=sampling_locations,
        attention_weights=attention_weights,
    )
    sizes = _sizes(value, spatial_shapes).to(torch.int64)  # areas do not fit into small integers
    if level_start_index is None:
        if sizes.dim() != 2 or sizes.shape[1] != 2:
            raise TensorShapeError(f"ms_deform_attn(): spatial_shapes is {list(sizes.shape)}, expected [L, 2]")
        areas = sizes[:, 0] * sizes[:, 1]  # prod would compile a kernel on a GPU
        level_start_index = areas.cumsum(0) - areas
    dtype = value.dtype
    for name, other in (("sampling_locations", sampling_locations), ("attention_weights", attention_weights)):
        if other.dtype != dtype:
            check_promotable("ms_deform_attn", value=value, **{name: other})
            dtype = torch.promote_types(dtype, other.dtype)
    result: Tensor = ms_deform_attn_sampled(
        value.to(dtype),
        sizes,
        level_start_index.to(torch.int64),
        sampling_locations.to(dtype),
        attention_weights.to(dtype),
    )
    return result.to(value.dtype)


class MSDeformAttnFunction:
    """`ms_deform_attn` where code calls an autograd function's `apply`."""

    apply = staticmethod(ms_deform_attn)


def _sizes(value: Tensor, shapes: Shapes) -> Tensor:
    if isinstance(shapes, Tensor):
        return shapes
    try:
        listed = [(height, width) for height, width in shapes]
    except (TypeError, ValueError):
        listed = None
    if listed is None or not all(is_int(size) and size >= 0 for pair in listed for size in pair):
        raise ArgumentTypeError(
            f"ms_deform_attn(): spatial_shapes is {describe(shapes)}, expected a tensor [L, 2] or a (height, width) a level"
        )
    total = sum(height * width for height, width in listed)
    if value.dim() == 4 and value.shape[1] != total:
        raise TensorShapeError(
            f"ms_deform_attn(): value has {value.shape[1]} pixels, the levels of spatial_shapes {listed} have {total}"
        )
    return torch.tensor(listed, dtype=torch.int64, device=value.device).reshape(-1, 2)
