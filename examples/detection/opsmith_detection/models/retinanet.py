"""RetinaNet (Lin et al., "Focal Loss for Dense Object Detection", https://arxiv.org/abs/1708.02002)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from opsmith.ops import generalized_box_iou_loss, sigmoid_focal_loss
from opsmith_detection.config import ModelConfig
from opsmith_detection.models.backbone import Normalise, Pyramid, ResNet
from opsmith_detection.models.boxes import Anchors, clip, decode, detect, encode, pick
from opsmith_detection.models.layers import ConvNorm, Norm, computed_again
from opsmith_detection.models.matching import FOREGROUND, IGNORED, match, objects_of
from opsmith_detection.structures import Detections, Targets

__all__ = ["RetinaNet"]

_PRIOR = 0.01  # probability of each class at first


class Head(nn.Module):
    """Convolutions, and one more that predicts numbers for each anchor. With `recompute` training keeps these alone."""

    def __init__(self, config: ModelConfig, anchors: int, numbers: int, bias: float = 0.0) -> None:
        super().__init__()
        self.numbers, self.recompute = numbers, config.recompute
        channels, head = config.backbone.pyramid_channels, config.retinanet
        norm: Norm | None = "group" if head.norm else None
        self.convs = nn.Sequential(*(ConvNorm(channels, channels, norm=norm) for _ in range(head.convs)))
        self.last = ConvNorm(channels, anchors * numbers, relu=False)
        for module in self.modules():
            if isinstance(module, ConvNorm):
                module.initialise("normal")
        if self.last.conv.bias is not None:
            nn.init.constant_(self.last.conv.bias, bias)

    def forward(self, levels: Sequence[Tensor]) -> list[Tensor]:
        """Return [B, N, numbers] of each level's N anchors."""
        recompute = self.recompute and self.training
        return [computed_again(self._predict, level, enabled=recompute) for level in levels]

    def _predict(self, level: Tensor) -> Tensor:
        predicted: Tensor = self.last(self.convs(level))
        return predicted.permute(0, 2, 3, 1).reshape(len(level), -1, self.numbers)


class RetinaNet(nn.Module):
    """Classifies and moves all anchors at once."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        channels, head = config.backbone.pyramid_channels, config.retinanet
        self.config = head
        self.normalise = Normalise(config.mean, config.std)
        self.backbone = ResNet(config.backbone, recompute=config.recompute)
        norm = config.backbone.trained_norm if config.backbone.pyramid_norm else None
        self.pyramid = Pyramid(self.backbone.channels[1:], channels, norm=norm, extra=head.extra_levels_from)
        sizes = [[float(int(size * scale)) for scale in head.scales] for size in head.base_sizes]
        self.anchors = Anchors(sizes, head.ratios)
        # Labels count from 1, as in torchvision's models, so there is a class 0 that nothing has.
        self.classes = config.classes + 1
        bias = -math.log((1 - _PRIOR) / _PRIOR)
        self.class_head = Head(config, self.anchors.count, self.classes, bias)
        self.box_head = Head(config, self.anchors.count, 4)

    def forward(self, images: Tensor, sizes: Tensor, targets: Targets | None = None) -> Detections | dict[str, Tensor]:
        """Return the losses if targets are given, and detections otherwise; all as in `Batch`."""
        levels = self.pyramid(self.backbone(self.normalise(images, sizes))[1:])
        logits, deltas = self.class_head(levels), self.box_head(levels)
        anchors = self.anchors(images.shape[2:], levels)
        if targets is None:
            return self._detect(logits, deltas, anchors, sizes)
        return self._losses(torch.cat(logits, 1), torch.cat(deltas, 1).float(), torch.cat(anchors), targets)

    def _losses(self, logits: Tensor, deltas: Tensor, anchors: Tensor, targets: Targets) -> dict[str, Tensor]:
        config = self.config
        objects, _ = objects_of(targets)
        matched, kind = match(objects, anchors, config.foreground_iou, config.background_iou, best_too=True)
        is_foreground = kind == FOREGROUND
        count = is_foreground.sum(1).clamp(min=1)
        label = torch.where(is_foreground, targets.labels.gather(1, matched), self.classes)
        label = torch.where(kind == IGNORED, -1, label)
        of_class = [sigmoid_focal_loss(*image, reduction="sum") for image in zip(logits, label, strict=True)]
        wanted = pick(objects, matched)
        if config.box_loss == "giou":
            of_boxes = generalized_box_iou_loss(decode(deltas, anchors), wanted)
        else:
            moves = torch.where(is_foreground[..., None], encode(wanted, anchors), 0.0)
            of_boxes = (deltas - moves).abs().sum(2)
        return {
            "classification": (torch.stack(of_class) / count).mean(),
            "bbox_regression": (torch.where(is_foreground, of_boxes, 0.0).sum(1) / count).mean(),
        }

    def _detect(
        self, logits: Sequence[Tensor], deltas: Sequence[Tensor], anchors: Sequence[Tensor], sizes: Tensor
    ) -> Detections:
        config = self.config
        boxes, scores, labels = [], [], []
        for level, moves, anchors_of_level in zip(logits, deltas, anchors, strict=True):
            # The best pairs of an anchor and a class are pairs of the anchors whose best class is best.
            _, rows = level[..., 1:].amax(2).topk(min(config.candidates, level.shape[1]))
            pairs = pick(level, rows)[..., 1:].flatten(1)
            best, index = pairs.topk(min(config.candidates, pairs.shape[1]))
            row = rows.gather(1, index.div(self.classes - 1, rounding_mode="floor"))
            boxes.append(decode(pick(moves, row), anchors_of_level[row]))
            scores.append(best.float().sigmoid())
            labels.append(index % (self.classes - 1) + 1)
        box, score, label = clip(torch.cat(boxes, 1), sizes), torch.cat(scores, 1), torch.cat(labels, 1)
        score = torch.where(score > config.score_threshold, score, -1.0)
        return detect(box, score, label, self.classes, config.nms_iou, config.detections)
