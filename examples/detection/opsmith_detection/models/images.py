"""Images as networks take them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

__all__ = ["Normalise"]


class Normalise(nn.Module):
    """Makes of bytes numbers of this mean and deviation, given for values from 0 to 1, and zeros of the padding."""

    scale: Tensor
    shift: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        deviation = torch.tensor(std)
        self.register_buffer("scale", (1 / (255 * deviation))[:, None, None], persistent=False)
        self.register_buffer("shift", (-torch.tensor(mean) / deviation)[:, None, None], persistent=False)

    def forward(self, images: Tensor, sizes: Tensor) -> Tensor:
        """Return images, uint8 [B, 3, H, W], as float32 in channels_last; beyond heights and widths [B, 2] they are 0."""
        height, width = images.shape[2:]
        is_row, is_column = (
            torch.arange(side, device=images.device) < sizes[:, dim, None] for dim, side in enumerate((height, width))
        )
        is_inside = is_row[:, None, :, None] & is_column[:, None, None, :]
        values = images.contiguous(memory_format=torch.channels_last) * self.scale + self.shift
        return torch.where(is_inside, values, 0.0)
