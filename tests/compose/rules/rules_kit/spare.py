"""An operator that no test calls, so that rules can be declared for it."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

import opsmith


@opsmith.op()
def spare(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    """The input."""
    return x
