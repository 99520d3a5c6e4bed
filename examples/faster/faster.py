"""The weights of an attention, softmax(scale * scores + bias), by kernels of which each is faster than the one before."""

from __future__ import annotations

import itertools

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith

__all__ = ["ahead", "direct", "naive", "one_exp", "threads", "vectors"]


def body(scores: Tensor, bias: Tensor, scale: float) -> Tensor:
    """The definition of all steps."""
    return torch.softmax(scale * scores + bias, dim=1)


@opsmith.op(cpu="1_naive.cpp", outputs="weights")
def naive(scores: Float[Tensor, "R N"], bias: Float[Tensor, "N"], scale: float) -> Float[Tensor, "R N"]:
    """The formula, element by element."""
    return body(scores, bias, scale)


@opsmith.op(cpu="2_one_exp.cpp", outputs="weights")
def one_exp(scores: Float[Tensor, "R N"], bias: Float[Tensor, "N"], scale: float) -> Float[Tensor, "R N"]:
    """In float, with one exponential an element and one division a row."""
    return body(scores, bias, scale)


@opsmith.op(cpu="3_vectors.cpp", outputs="weights")
def vectors(scores: Float[Tensor, "R N"], bias: Float[Tensor, "N"], scale: float) -> Float[Tensor, "R N"]:
    """Over dense rows of floats, by loops that the compiler turns into vector instructions."""
    return body(scores, bias, scale)


@opsmith.op(cpu="4_threads.cpp", outputs="weights")
def threads(scores: Float[Tensor, "R N"], bias: Float[Tensor, "N"], scale: float) -> Float[Tensor, "R N"]:
    """On all cores."""
    return body(scores, bias, scale)


@opsmith.op(cpu="5_direct.cpp", outputs="weights")
def direct(scores: Float[Tensor, "R N"], bias: Float[Tensor, "N"], scale: float) -> Float[Tensor, "R N"]:
    """Without the copies that dense rows of floats do not need."""
    return body(scores, bias, scale)


@opsmith.op(cpu="6_ahead.cpp", outputs="weights")
def ahead(scores: Float[Tensor, "R N"], bias: Float[Tensor, "N"], scale: float) -> Float[Tensor, "R N"]:
    """With the next row on its way while the exponentials of this one are computed."""
    return body(scores, bias, scale)


# `opsmith bench` times each step against the one before it, too.
for earlier, later in itertools.pairwise((naive, one_exp, vectors, threads, direct, ahead)):
    later.versus("before")(earlier)
