"""Region proposals (Ren et al., "Faster R-CNN", https://arxiv.org/abs/1506.01497)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from opsmith_detection.config import RPNConfig
from opsmith_detection.models.boxes import Anchors, box_loss, clip, decode, has_area, pick, suppress
from opsmith_detection.models.layers import ConvNorm, computed_again
from opsmith_detection.models.matching import match, sample

__all__ = ["RPN", "Proposals"]


class Proposals(NamedTuple):
    """Where objects may be, of each image."""

    boxes: Tensor  # float32 [B, P, 4]; zeros where there is none
    is_valid: Tensor  # bool [B, P]


class RPN(nn.Module):
    """Scores and moves anchors, and proposes the best of them. With `recompute` training keeps its predictions alone."""

    def __init__(self, channels: int, config: RPNConfig, *, recompute: bool = False) -> None:
        super().__init__()
        self.config, self.recompute = config, recompute
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
        objectness, deltas = self._predict(levels)
        is_training = objects is not None
        proposals = self._propose([logits.detach() for logits in objectness], deltas, anchors, sizes, is_training)
        if objects is None:
            return proposals, {}
        return proposals, self._losses(torch.cat(objectness, 1), torch.cat(deltas, 1), torch.cat(anchors), objects)

    def _predict(self, levels: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Return the logits of each level's anchors, float32 [B, N], and their boxes' offsets, [B, N, 4]."""
        weight = torch.cat([self.objectness.conv.weight, self.deltas.conv.weight])
        parts = [self.objectness.conv.bias, self.deltas.conv.bias]
        bias = torch.cat([part for part in parts if part is not None])
        objectness, deltas = [], []
        for level in levels:
            recompute = self.recompute and self.training
            both = computed_again(self._predict_both, level, weight, bias, enabled=recompute)
            objectness.append(both[..., : self.anchors.count].flatten(1))
            deltas.append(both[..., self.anchors.count :].reshape(len(level), -1, 4))
        return objectness, deltas

    def _predict_both(self, level: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Return both in one convolution, which reads the features once; by pixel they lie as they are needed."""
        return functional.conv2d(self.convs(level), weight, bias).permute(0, 2, 3, 1).float()

    @torch.no_grad()
    def _propose(
        self,
        objectness: Sequence[Tensor],
        deltas: Sequence[Tensor],
        anchors: Sequence[Tensor],
        sizes: Tensor,
        is_training: bool,
    ) -> Proposals:
        candidates, most = (
            both[0] if is_training else both[1] for both in (self.config.candidates, self.config.proposals)
        )
        boxes, scores, groups = [], [], []
        for number, (logits, moves, anchors_of_level) in enumerate(zip(objectness, deltas, anchors, strict=True)):
            best, index = logits.topk(min(candidates, logits.shape[1]))
            scores.append(best.sigmoid())
            boxes.append(decode(pick(moves, index), anchors_of_level[index]))
            groups.append(torch.full_like(index, number))
        clipped = clip(torch.cat(boxes, 1), sizes)
        score = torch.where(has_area(clipped, self.config.min_size), torch.cat(scores, 1), -1.0)
        best, index = suppress(clipped, score, torch.cat(groups, 1), len(anchors), self.config.nms_iou, most)
        is_valid = best >= 0
        return Proposals(torch.where(is_valid[..., None], pick(clipped, index), 0.0), is_valid)

    def _losses(self, objectness: Tensor, deltas: Tensor, anchors: Tensor, objects: Tensor) -> dict[str, Tensor]:
        config = self.config
        matched, kind = match(objects, anchors, config.foreground_iou, config.background_iou, best_too=True)
        samples = sample(kind, config.samples, config.positive_fraction)
        count = samples.is_valid.sum().clamp(min=1)
        logits, target = objectness.gather(1, samples.chosen), samples.is_foreground.float()
        of_class = functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
        wanted = pick(objects, matched.gather(1, samples.chosen))
        moved = box_loss(pick(deltas, samples.chosen), wanted, anchors[samples.chosen], samples.is_foreground)
        return {
            "loss_objectness": torch.where(samples.is_valid, of_class, 0.0).sum() / count,
            "loss_rpn_box_reg": moved / count,
        }
