"""An operator with every kind of number, by position, by keyword and by default; it has no kernel, so nothing is built."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

import opsmith

__all__ = ["powers"]


@opsmith.op(namespace="compose_kit")
def powers(
    x: Float[Tensor, "*n"],
    y: Float[Tensor, "*n"],
    times: int = 2,
    *,
    scale: float = 1.0,
    shift: int = 0,
    flip: bool = False,
) -> Float[Tensor, "*n"]:
    """Return scale * x**times + (shift + 1) * y, or with `flip` the negative of it."""
    total = scale * x**times + (shift + 1) * y
    return -total if flip else total
