"""Detectors of two stages: Fast, Faster and Mask R-CNN."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from opsmith_detection.config import ModelConfig
from opsmith_detection.models.backbone import Normalise, Pyramid, ResNet
from opsmith_detection.models.box_head import BoxHead
from opsmith_detection.models.boxes import has_area
from opsmith_detection.models.mask_head import MaskHead
from opsmith_detection.models.matching import objects_of
from opsmith_detection.models.rpn import RPN, Proposals
from opsmith_detection.structures import Detections, Targets

__all__ = ["GeneralizedRCNN"]


class GeneralizedRCNN(nn.Module):
    """Proposes boxes, and classifies, moves and draws them. Without an RPN the proposals are given: Fast R-CNN.

    With `skips_padding` inference draws no more masks an image than the image with most detections has. To know how many
    that are costs nothing on a CPU; on a GPU the host would wait.
    """

    skips_padding = False

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        channels, norm = config.backbone.pyramid_channels, config.backbone.trained_norm
        self.normalise = Normalise(config.mean, config.std)
        self.backbone = ResNet(config.backbone, recompute=config.recompute)
        pyramid_norm = norm if config.backbone.pyramid_norm else None
        self.pyramid = Pyramid(self.backbone.channels, channels, norm=pyramid_norm, extra="pool")
        self.rpn = None if config.rpn is None else RPN(channels, config.rpn)
        self.box_head = BoxHead(channels, config.classes, config.box_head, norm)
        self.most_foreground = int(config.box_head.samples * config.box_head.positive_fraction)
        self.mask_head = (
            None
            if config.mask_head is None
            else MaskHead(channels, config.classes, config.mask_head, norm, recompute=config.recompute)
        )

    def forward(
        self, images: Tensor, sizes: Tensor, targets: Targets | None = None, proposals: Tensor | None = None
    ) -> Detections | dict[str, Tensor]:
        """Return the losses if targets are given, and detections otherwise.

        Args:
            images, sizes, targets: as in `Batch`.
            proposals: boxes [B, P, 4] to take instead of the RPN's; those of no area are padding.
        """
        levels = self.pyramid(self.backbone(self.normalise(images, sizes)))
        losses: dict[str, Tensor] = {}
        if proposals is not None:
            proposed = Proposals(proposals, has_area(proposals))
        elif self.rpn is None:
            raise ValueError("a model without RPN takes its proposals as an argument")
        else:
            objects = None if targets is None else objects_of(targets)[0]
            proposed, losses = self.rpn(levels, images.shape[2:], sizes, objects)
        if targets is None:
            return self._detect(levels, proposed, sizes)
        if self.mask_head is not None and targets.masks is None:
            raise ValueError("a model with a mask head takes targets with masks")
        rois = self.box_head.draw(proposed, targets)
        losses |= self.box_head.losses(self.box_head(levels, rois.boxes, rois.is_valid), rois, targets)
        if self.mask_head is not None:
            drawn = rois.first(self.most_foreground)
            pooled = self.mask_head.pool(levels, drawn.boxes, drawn.is_foreground)
            del levels  # 91 MB an image in float32 that no backward reads, while the mask head makes as much
            losses |= self.mask_head.loss(pooled, drawn, targets)
        return losses

    def _detect(self, levels: list[Tensor], proposals: Proposals, sizes: Tensor) -> Detections:
        detections = self.box_head.detect(self.box_head(levels, *proposals), proposals, sizes)
        if self.mask_head is None:
            return detections
        is_found = detections.labels > 0
        count = is_found.shape[1]
        most = max(1, int(is_found.sum(1).max())) if self.skips_padding else count
        boxes, is_drawn, labels = detections.boxes[:, :most], is_found[:, :most], detections.labels[:, :most]
        logits = self.mask_head(self.mask_head.pool(levels, boxes, is_drawn), is_drawn, labels)
        masks = torch.where(is_drawn[..., None, None], logits.sigmoid(), 0.0)
        return detections._replace(masks=functional.pad(masks, (0, 0, 0, 0, 0, count - most)))
