"""Operators whose kernels are right, and whose bodies have no gradient or return something else."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float32
from torch import Tensor

import opsmith

TWICE = opsmith.view("bodies.cpp", entry="twice")


@opsmith.op(cpu=TWICE)
def detached(x: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    """2x, which autograd does not see."""
    return (2 * x).detach()


@opsmith.op(cpu=TWICE)
def of_data(x: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    """2x, which autograd does not see."""
    return 2 * x.data


@opsmith.op(cpu=TWICE)
def in_numpy(x: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    """2x, which autograd does not see."""
    return torch.from_numpy(2 * x.detach().numpy())


@opsmith.op(cpu=TWICE)
def shorter(x: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    """2x without its end."""
    return 2 * x[:2]


@opsmith.op(cpu=TWICE)
def of_another_rank(x: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    """2x with a dimension more."""
    return 2 * x[None]


@opsmith.op(cpu=TWICE)
def pair(x: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    """2x, and again."""
    results: Any = (2 * x, 2 * x)
    return results  # type: ignore[no-any-return]


@opsmith.op(cpu=TWICE)
def nothing(x: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    """2x, which is not returned."""
    results: Any = [None for _ in (2 * x, 1)][:1]
    return results  # type: ignore[no-any-return]


@opsmith.op(cpu="bodies.cpp")
def gated(x: Float32[Tensor, "N"], gate: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    """Each x where its gate is above 0."""
    return x * (gate > 0)
