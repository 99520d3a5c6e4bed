"""Masks of proposals (He et al., "Mask R-CNN", https://arxiv.org/abs/1703.06870)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from opsmith.ops import roi_align
from opsmith_detection.config import MaskHeadConfig
from opsmith_detection.models.box_head import RoIs, pool
from opsmith_detection.models.boxes import pick
from opsmith_detection.models.fused import bias_relu
from opsmith_detection.models.layers import ConvNorm, Norm, computed_again
from opsmith_detection.structures import Targets

__all__ = ["MaskHead", "mask_targets"]

# RoIs whose masks are drawn at once in training. There is room for many more RoIs than are foreground, and twice their
# resolution is the most that a step would keep: it is computed again for the backward instead, some RoIs at a time.
_AT_ONCE = 128


class MaskHead(nn.Module):
    """Draws the mask of each box for its own class; the others' would be dropped, and are not computed.

    With `recompute`, which takes no norm, training keeps what is pooled alone.
    """

    def __init__(
        self, channels: int, classes: int, config: MaskHeadConfig, norm: Norm, *, recompute: bool = False
    ) -> None:
        super().__init__()
        self.config, self.recompute = config, recompute
        inputs = (channels, *[config.channels] * config.convs)
        kind = norm if config.norm else None
        self.convs = nn.ModuleList(ConvNorm(of, to, norm=kind) for of, to in pairwise(inputs))
        self.upsample = nn.ConvTranspose2d(inputs[-1], config.channels, 2, stride=2)
        self.classes = nn.Conv2d(config.channels, classes + 1, 1)
        for module in (self.upsample, self.classes):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def pool(self, levels: Sequence[Tensor], boxes: Tensor, is_valid: Tensor) -> Tensor:
        """Return what `forward` takes of boxes [B, K, 4]."""
        return pool(levels, boxes, is_valid, self.config.pooled)

    def forward(self, pooled: Tensor, is_valid: Tensor, labels: Tensor) -> Tensor:
        """Return the logits of the masks of boxes with these labels [B, K], float32 [B, K, M, M]."""
        x = pooled if self.recompute else self._convolve(pooled, is_valid.flatten())
        # The classes' weights, one for each mask: a product, because its gradient is summed in a fixed order.
        classes = torch.arange(self.classes.out_channels, device=labels.device)
        one_hot = (labels.flatten()[:, None] == classes).to(self.classes.weight.dtype)
        # As [classes + 1, C], whose gradient comes back in channels_last, as the weight is.
        weight = one_hot @ self.classes.weight.permute(0, 2, 3, 1).flatten(1)
        assert self.classes.bias is not None
        bias = one_hot @ self.classes.bias
        if torch.is_grad_enabled():
            parts = zip(x.split(_AT_ONCE), weight.split(_AT_ONCE), bias.split(_AT_ONCE), strict=True)
            logits = torch.cat([computed_again(self._draw, *part) for part in parts])
        else:
            logits = self._draw(x, weight, bias)
        return logits.view(*is_valid.shape, *logits.shape[1:])

    def _convolve(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        for conv in self.convs:
            x = conv(x, valid=valid)
        return x

    def _draw(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Return the logits of masks, float32 [R, M, M], with a weight [R, C] and a bias [R] for each."""
        if self.recompute:
            x = self._convolve(x)
        assert self.upsample.bias is not None
        x = functional.conv_transpose2d(x, self.upsample.weight, stride=2)
        x = bias_relu(x, self.upsample.bias)
        pixels = x.permute(0, 2, 3, 1).flatten(1, 2)
        logits = torch.bmm(pixels, weight[..., None].to(pixels.dtype)).squeeze(2).float() + bias[:, None]
        return logits.view(-1, *x.shape[2:])

    def loss(self, pooled: Tensor, rois: RoIs, targets: Targets) -> dict[str, Tensor]:
        """Return the loss of the RoIs that are foreground."""
        assert targets.masks is not None
        logits = self(pooled, rois.is_foreground, rois.label)
        wanted = mask_targets(targets, rois, logits.shape[-1])
        losses = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none").mean((2, 3))
        count = rois.is_foreground.sum().clamp(min=1)
        return {"loss_mask": torch.where(rois.is_foreground, losses, 0.0).sum() / count}


@torch.no_grad()
def mask_targets(targets: Targets, rois: RoIs, size: int) -> Tensor:
    """Return the part of its object's mask that lies in each RoI, [B, K, size, size], from 0 to 1.

    An element is what the mask has in its cell, with pixels as squares, as a mask is pasted later. torchvision's are half a
    pixel off, for which its resizing of masks makes up where images are resized: it takes the nearest pixel's corner.
    """
    masks = targets.masks
    assert masks is not None
    images, objects, resolution, _ = masks.shape
    boxes = pick(targets.boxes, rois.object_index)
    corner, sides = boxes[..., :2].repeat(1, 1, 2), (boxes[..., 2:] - boxes[..., :2]).repeat(1, 1, 2)
    placed = (rois.boxes - corner) * (resolution / sides)
    number = rois.object_index + objects * torch.arange(images, device=boxes.device)[:, None]
    number = torch.where(rois.is_foreground, number, -1)[..., None]
    places = torch.cat([number, torch.where(rois.is_foreground[..., None], placed, 0.0)], -1).flatten(0, 1)
    cut = roi_align(masks.flatten(0, 1)[:, None].float(), places, size, aligned=True)
    return cut.view(images, -1, size, size) / 255
