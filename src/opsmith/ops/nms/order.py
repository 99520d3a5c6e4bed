"""The order in which all suppression takes boxes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["by_decreasing_score"]


def by_decreasing_score(scores: Tensor) -> Tensor:
    """Return the order of scores [N], int64 [N]: the highest first, NaN before all, equal ones by index.

    `torch.argsort` alone has this order on the CPU, but on a GPU not for every NaN.
    """
    numbers = scores.nan_to_num(nan=0.0, posinf=math.inf, neginf=-math.inf)
    order = torch.argsort(numbers, descending=True, stable=True)
    return order[torch.argsort(scores[order].isnan().byte(), descending=True, stable=True)]
