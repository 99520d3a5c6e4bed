"""A dataset whose items are made by an operator, in a module of its own so that worker processes can import it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.data import Dataset

from opsmith.ops.sigmoid import sigmoid

__all__ = ["Sigmoids"]


class Sigmoids(Dataset[Tensor]):
    """Item n is the sigmoid of n, n+1, n+2."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Tensor:
        return sigmoid(torch.arange(index, index + 3, dtype=torch.float32))
