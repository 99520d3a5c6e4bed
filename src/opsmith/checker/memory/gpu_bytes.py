"""Makes tensors of a GPU's memory by its address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["GpuBytes"]


@dataclass(frozen=True)
class GpuBytes:
    """Memory of a GPU as PyTorch takes it from other libraries."""

    address: int
    size: int

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.size,), "typestr": "|u1", "data": (self.address, False), "version": 2}

    def tensor(self, device: torch.device | str = "cuda") -> Tensor:
        """Return the bytes as a tensor of uint8."""
        return torch.as_tensor(self, device=device)
