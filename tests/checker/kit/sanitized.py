"""Operators for sanitizers: one defect each, and one that is right."""

from jaxtyping import Float32
from torch import Tensor

import opsmith


@opsmith.op(cpu="sanitized.cpp")
def shifted(x: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    """x, read one element too far."""
    return x.clone()


@opsmith.op(cpu="sanitized.cpp")
def bits(x: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    """x, with shifts by more than there are bits."""
    return x.clone()


@opsmith.op(cpu="sanitized.cpp")
def raced(x: Float32[Tensor, "N"]) -> Float32[Tensor, ""]:
    """The sum, added up by several threads in one place."""
    return x.double().sum().float()


@opsmith.op(cpu="sanitized.cpp")
def copied(x: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    """x, copied by several threads."""
    return x.clone()


@opsmith.op(cpu="sanitized.cpp")
def raced_for_the_same(x: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    """x, copied by several threads, which write the same mark: a race that no result shows."""
    return x.clone()
