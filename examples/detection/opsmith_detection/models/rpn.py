"""Region proposals (Ren et al., "Faster R-CNN", https://arxiv.org/abs/1506.01497)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from opsmith_detection.config import RPNConfig
from opsmith_detection.models.boxes import Anchors, box_loss, clip, decode, has_area, pick, suppress
from opsmith_detection.models.layers import ConvNorm, without_copies
from opsmith_detection.models.matching import match, sample
from opsmith_detection.models.pixels import around, pixels_of

__all__ = ["RPN", "Proposals"]


class Proposals(NamedTuple):
    """Where objects may be, of each image."""

    boxes: Tensor  # float32 [B, P, 4]; zeros where there is none
    is_valid: Tensor  # bool [B, P]


class RPN(nn.Module):
    """Scores and moves anchors, and proposes the best of them.

    Proposals take no gradient, and the losses are of a few hundred anchors an image: only these are predicted with a
    gradient, from the pixels around them. Of all others nothing is kept, and nothing is differentiated.
    """

    def __init__(self, channels: int, config: RPNConfig) -> None:
        super().__init__()
        self.config = config
        self.anchors = Anchors(config.sizes, config.ratios)
        self.convs = nn.Sequential(*(ConvNorm(channels, channels) for _ in range(config.convs)))
        self.objectness = ConvNorm(channels, self.anchors.count, 1, relu=False)
        self.deltas = ConvNorm(channels, 4 * self.anchors.count, 1, relu=False)
        for module in self.modules():
            if isinstance(module, ConvNorm):
                module.initialise("normal")

    def forward(
        self, levels: Sequence[Tensor], canvas: Sequence[int], sizes: Tensor, objects: Tensor | None
    ) -> tuple[Proposals, dict[str, Tensor]]:
        """Return the proposals of images with these sizes, [B, 2], and the losses if the objects are known, [B, G, 4]."""
        anchors = self.anchors(canvas, levels)
        proposals = self._propose(levels, anchors, sizes, is_training=objects is not None)
        return proposals, {} if objects is None else self._losses(levels, torch.cat(anchors), objects)

    def _last(self) -> tuple[Tensor, Tensor]:
        """Return the weight and the bias of both predictions in one convolution, which reads the features once."""
        assert self.objectness.conv.bias is not None and self.deltas.conv.bias is not None
        weight = torch.cat([self.objectness.conv.weight, self.deltas.conv.weight])
        return weight, torch.cat([self.objectness.conv.bias, self.deltas.conv.bias])

    def _predict(self, features: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """Return of pixels [N, C, H, W] the logits of their anchors, float32 [N, H, W, count], and offsets, [..., 4].

        By pixel they lie as they are needed.
        """
        both = functional.conv2d(features, weight, bias).permute(0, 2, 3, 1).float()
        return both[..., : self.anchors.count], both[..., self.anchors.count :].unflatten(3, (-1, 4))

    def _predict_some(self, levels: Sequence[Tensor], chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits [B, K] and the offsets [B, K, 4] of some anchors of each image, [B, K]."""
        pixels, anchor = pixels_of(levels, chosen, self.anchors.count)
        reach = len(self.convs)  # so many pixels around one decide what is predicted there
        x, is_inside = around(levels, pixels, reach)
        for conv in self.convs:  # each of which pads with zeros
            x = conv(torch.where(is_inside, x, 0.0))
        logits, deltas = self._predict(x[:, :, reach : reach + 1, reach : reach + 1], *self._last())
        of_anchor = anchor.flatten()[:, None]
        logits = logits.flatten(1).gather(1, of_anchor)
        deltas = deltas.flatten(1, 3).gather(1, of_anchor[..., None].expand(-1, -1, 4))
        return logits.view_as(chosen), deltas.view(*chosen.shape, 4)

    @torch.no_grad()
    def _propose(
        self, levels: Sequence[Tensor], anchors: Sequence[Tensor], sizes: Tensor, *, is_training: bool
    ) -> Proposals:
        candidates, most = (
            both[0] if is_training else both[1] for both in (self.config.candidates, self.config.proposals)
        )
        last = self._last()
        boxes, scores, groups = [], [], []
        for number, (level, anchors_of_level) in enumerate(zip(levels, anchors, strict=True)):
            # Copies that some releases of PyTorch make here have no gradient, and the losses would take them.
            with without_copies(level.device):
                logits, moves = (each.flatten(1, 3) for each in self._predict(self.convs(level), *last))
            best, index = logits.topk(min(candidates, logits.shape[1]))
            scores.append(best.sigmoid())
            boxes.append(decode(pick(moves, index), anchors_of_level[index]))
            groups.append(torch.full_like(index, number))
        clipped = clip(torch.cat(boxes, 1), sizes)
        score = torch.where(has_area(clipped, self.config.min_size), torch.cat(scores, 1), -1.0)
        best, index = suppress(clipped, score, torch.cat(groups, 1), len(anchors), self.config.nms_iou, most)
        is_valid = best >= 0
        return Proposals(torch.where(is_valid[..., None], pick(clipped, index), 0.0), is_valid)

    def _losses(self, levels: Sequence[Tensor], anchors: Tensor, objects: Tensor) -> dict[str, Tensor]:
        config = self.config
        matched, kind = match(objects, anchors, config.foreground_iou, config.background_iou, best_too=True)
        samples = sample(kind, config.samples, config.positive_fraction)
        count = samples.is_valid.sum().clamp(min=1)
        logits, deltas = self._predict_some(levels, samples.chosen)
        target = samples.is_foreground.float()
        of_class = functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
        wanted = pick(objects, matched.gather(1, samples.chosen))
        moved = box_loss(deltas, wanted, anchors[samples.chosen], samples.is_foreground)
        return {
            "loss_objectness": torch.where(samples.is_valid, of_class, 0.0).sum() / count,
            "loss_rpn_box_reg": moved / count,
        }
