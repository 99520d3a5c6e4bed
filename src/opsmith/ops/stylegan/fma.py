"""`torch_utils.ops.fma`: a product and a sum in one pass, which PyTorch has as addcmul."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["fma"]


def fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Return a * b + c of tensors that are broadcast against each other; it has gradients of any order."""
    return torch.addcmul(c, a, b)
