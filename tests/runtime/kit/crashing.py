"""An operator that ends its process, and one that does not."""

from __future__ import annotations

from jaxtyping import Float32
from torch import Tensor

import opsmith

# What crash() takes for a signal, besides signals.
STACK_OVERFLOW = 1000


@opsmith.op(cpu="crashing.cpp")
def crash(x: Float32[Tensor, "*n"], signal: int, *, in_thread: bool = False) -> Float32[Tensor, "*n"]:
    """End the process by a signal."""
    return x.clone()


@opsmith.op(cpu="crashing.cpp")
def same(x: Float32[Tensor, "*n"]) -> Float32[Tensor, "*n"]:
    """Copy."""
    return x.clone()
