"""Defines the attention as a module: Deformable DETR's MSDeformAttn, whose state dicts it loads."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from opsmith.errors import ArgumentValueError, ShapeError
from opsmith.ops.ms_deform_attn.functions import Shapes, ms_deform_attn

__all__ = ["MSDeformAttn"]


class MSDeformAttn(nn.Module):
    """Multi-scale deformable attention with its projections, by the names of Deformable DETR.

    Parameters
    ----------
    d_model
        Channels of queries, features and results, a multiple of `n_heads`.
    n_levels, n_heads, n_points
        How many levels the pyramid has, how many heads attend, and at how many points of each level.
    """

    def __init__(self, d_model: int = 256, n_levels: int = 4, n_heads: int = 8, n_points: int = 4) -> None:
        super().__init__()
        if d_model % n_heads != 0:
            raise ArgumentValueError(f"MSDeformAttn(): d_model = {d_model} is not a multiple of n_heads = {n_heads}")
        self.d_model, self.n_levels, self.n_heads, self.n_points = d_model, n_levels, n_heads, n_points
        points = n_heads * n_levels * n_points
        self.sampling_offsets = nn.Linear(d_model, 2 * points)
        self.attention_weights = nn.Linear(d_model, points)
        self.value_proj = nn.Linear(d_model, d_model)
        self.output_proj = nn.Linear(d_model, d_model)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Let each head look in a direction of its own, its points 1, 2, ... pixels away, with equal weights.

        This is the initialisation of the paper, section A.4.
        """
        angles = torch.arange(self.n_heads) * (2 * math.pi / self.n_heads)
        directions = torch.stack([angles.cos(), angles.sin()], 1)
        directions = directions / directions.abs().amax(1, keepdim=True)
        distances = torch.arange(1, self.n_points + 1, dtype=torch.float32)[:, None]
        offsets = (directions[:, None, None] * distances).expand(-1, self.n_levels, -1, -1)
        with torch.no_grad():
            self.sampling_offsets.bias.copy_(offsets.flatten())
        nn.init.zeros_(self.sampling_offsets.weight)
        nn.init.zeros_(self.attention_weights.weight)
        nn.init.zeros_(self.attention_weights.bias)
        for projection in (self.value_proj, self.output_proj):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

    def forward(
        self,
        query: Tensor,
        reference_points: Tensor,
        input_flatten: Tensor,
        input_spatial_shapes: Shapes,
        input_level_start_index: Tensor | None = None,
        input_padding_mask: Tensor | None = None,
    ) -> Tensor:
        """Return what each query gathers from the levels, [N, Q, d_model].

        `query` [N, Q, d_model]; `reference_points` [N, Q, L, 2] as (x, y) from 0 to 1, or [N, Q, L, 4] as boxes (x, y,
        width, height), within which points lie then; `input_flatten` [N, S, d_model], the features of all levels;
        `input_padding_mask` [N, S] is True at pixels that are padding.
        """
        images, queries = query.shape[:2]
        value = self.value_proj(input_flatten)
        if input_padding_mask is not None:
            value = value.masked_fill(input_padding_mask[..., None], 0.0)
        value = value.unflatten(2, (self.n_heads, self.d_model // self.n_heads))
        grid = (images, queries, self.n_heads, self.n_levels, self.n_points)
        offsets = self.sampling_offsets(query).view(*grid, 2)
        weights = self.attention_weights(query).view(*grid[:3], -1).softmax(-1).view(grid)
        locations = self._locations(reference_points, offsets, input_spatial_shapes)
        sums = ms_deform_attn(value, input_spatial_shapes, input_level_start_index, locations, weights)
        result: Tensor = self.output_proj(sums)
        return result

    def _locations(self, reference_points: Tensor, offsets: Tensor, shapes: Shapes) -> Tensor:
        if reference_points.dim() != 4 or reference_points.shape[-1] not in (2, 4):
            raise ShapeError(
                f"MSDeformAttn(): reference_points is {list(reference_points.shape)}, expected [N, Q, L, 2] or [N, Q, L, 4]"
            )
        points = reference_points[:, :, None, :, None]
        if reference_points.shape[-1] == 4:
            return points[..., :2] + offsets / self.n_points * points[..., 2:] * 0.5
        sizes = torch.as_tensor(shapes, device=offsets.device).flip(1)  # (width, height)
        return points + offsets / sizes[:, None].to(offsets.dtype)

    def extra_repr(self) -> str:
        """What print(module) shows in the parentheses."""
        return f"{self.d_model}, n_levels={self.n_levels}, n_heads={self.n_heads}, n_points={self.n_points}"
