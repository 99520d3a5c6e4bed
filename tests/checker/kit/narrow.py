"""Operators whose indices are computed in 32 bits, and the same ones in 64."""

from jaxtyping import Float, Int8
from torch import Tensor

import opsmith


@opsmith.op(cpu="narrow.cpp")
def twice(x: Float[Tensor, "A B"]) -> Float[Tensor, "A B"]:
    """Twice x, through its strides."""
    return 2 * x


@opsmith.op(cpu="narrow.cpp")
def twice_narrow(x: Float[Tensor, "A B"]) -> Float[Tensor, "A B"]:
    """Twice x, with an int for the index."""
    return 2 * x


@opsmith.op(cpu="narrow.cpp")
def twice_dense(x: Float[Tensor, "A B"]) -> Float[Tensor, "A B"]:
    """Twice x, whose strides are not looked at."""
    return 2 * x


@opsmith.op(cpu="narrow.cpp")
def negated(x: Int8[Tensor, "N"]) -> Int8[Tensor, "N"]:
    """-x."""
    return -x


@opsmith.op(cpu="narrow.cpp")
def negated_narrow(x: Int8[Tensor, "N"]) -> Int8[Tensor, "N"]:
    """-x, with an int for the size."""
    return -x
