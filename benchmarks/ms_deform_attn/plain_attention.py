"""Multi-scale deformable attention in one straightforward CUDA kernel a direction, with atomics: what ours is timed against.

A thread has one channel of one query and head. It goes over all points, works each one out again, and in the backward adds
to its four pixels by atomics; a block sums the gradients of locations and weights. float32 and contiguous tensors only.
"""

from __future__ import annotations

from jaxtyping import Float32, Int64
from torch import Tensor

import opsmith
from opsmith.ops.ms_deform_attn import ms_deform_attn_sampled

__all__ = ["plain_attention"]


@opsmith.op(cuda="plain_attention.cu", outputs="out")
def plain_attention(
    value: Float32[Tensor, "N S M D"],
    shapes: Int64[Tensor, "L 2"],
    starts: Int64[Tensor, "L"],
    locations: Float32[Tensor, "N Q M L P 2"],
    weights: Float32[Tensor, "N Q M L P"],
) -> Float32[Tensor, "N Q M*D"]:
    """The sum over points of weight times sample."""
    result: Tensor = ms_deform_attn_sampled.reference(value, shapes, starts, locations, weights)
    return result


@plain_attention.backward(cuda="plain_attention.cu")
def plain_attention_backward(  # type: ignore[empty-body]
    grad_out: Float32[Tensor, "N Q M*D"],
    value: Float32[Tensor, "N S M D"],
    shapes: Int64[Tensor, "L 2"],
    starts: Int64[Tensor, "L"],
    locations: Float32[Tensor, "N Q M L P 2"],
    weights: Float32[Tensor, "N Q M L P"],
) -> tuple[
    Float32[Tensor, "N S M D"],
    Float32[Tensor, "N Q M L P 2"],
    Float32[Tensor, "N Q M L P"],
]:
    """All three gradients."""
    ...
