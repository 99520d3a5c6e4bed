"""Anchors: boxes of several sizes and shapes around each pixel of each level, with torchvision's rounding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

__all__ = ["Anchors"]


class Anchors(nn.Module):
    """The anchors of canvases, which are made once for each.

    Parameters
    ----------
    sizes
        Of each level: the roots of the anchors' areas in pixels.
    ratios
        Heights to widths.
    """

    def __init__(self, sizes: Sequence[Sequence[float]], ratios: Sequence[float]) -> None:
        super().__init__()
        self.count = len(sizes[0]) * len(ratios)  # around each pixel
        high = torch.tensor(ratios, dtype=torch.float32).sqrt()[:, None]
        for level, each in enumerate(sizes):
            size = torch.tensor(each, dtype=torch.float32)
            sides = torch.stack([(1 / high * size).flatten(), (high * size).flatten()], 1)
            self.register_buffer(f"cell{level}", (torch.cat([-sides, sides], 1) / 2).round(), persistent=False)
        self._made: dict[tuple[object, ...], list[Tensor]] = {}

    def forward(self, canvas: Sequence[int], levels: Sequence[Tensor]) -> list[Tensor]:
        """Return the anchors of each level, float32 [H W count, 4], of a canvas of this height and width."""
        place = (*canvas, *(tuple(level.shape[2:]) for level in levels), levels[0].device)
        if torch.compiler.is_compiling():
            return self._make(canvas, levels)
        if place not in self._made:
            self._made[place] = self._make(canvas, levels)
        return self._made[place]

    def _make(self, canvas: Sequence[int], levels: Sequence[Tensor]) -> list[Tensor]:
        found = []
        for number, level in enumerate(levels):
            cell = self.get_buffer(f"cell{number}")
            y, x = (
                torch.arange(count, device=cell.device, dtype=torch.float32) * (side // count)
                for count, side in zip(level.shape[2:], canvas, strict=True)
            )
            corner = torch.stack(torch.meshgrid(x, y, indexing="xy"), -1).reshape(-1, 1, 2)
            found.append((torch.cat([corner, corner], -1) + cell).reshape(-1, 4))
        return found
