"""Says where random numbers are drawn: on the CPU, so that all devices have the same ones, but for large tensors of a GPU.

A GPU draws in a moment what takes a CPU seconds.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Draws", "drawing_device"]

_MANY = 1 << 20
_CPU = torch.device("cpu")


def drawing_device(elements: int, device: torch.device) -> torch.device:
    """Return where so many numbers for a device are drawn."""
    return device if elements > _MANY else _CPU


class Draws:
    """Generators of random numbers under one seed, for tensors of any device."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._generators: dict[torch.device, torch.Generator] = {}

    def generator(self, like: Tensor) -> torch.Generator:
        """Return the generator for as many numbers as a tensor has; what is drawn lies on its `device`."""
        device = drawing_device(like.numel(), like.device)
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(self._seed)
        return self._generators[device]

    def signs(self, like: Tensor) -> Tensor:
        """Return -1 and 1 at random, in float64, in the shape of a tensor and where it is."""
        random = self.generator(like)
        drawn = torch.randint(0, 2, like.shape, generator=random, device=random.device)
        return drawn.to(like.device, torch.float64) * 2 - 1

    def normal(self, like: Tensor) -> Tensor:
        """Return normal numbers in the shape and type of a tensor and where it is."""
        random = self.generator(like)
        return torch.randn(like.shape, generator=random, dtype=like.dtype, device=random.device).to(like.device)

    def uniform(self, like: Tensor) -> Tensor:
        """Return numbers from 0 to 1 in the shape of a tensor and where it is."""
        random = self.generator(like)
        return torch.rand(like.shape, generator=random, device=random.device).to(like.device)
