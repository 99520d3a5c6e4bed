"""What proposals are and where exactly (Girshick, "Fast R-CNN", https://arxiv.org/abs/1504.08083)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from opsmith.ops import roi_align_pyramid
from opsmith_detection.config import BoxHeadConfig
from opsmith_detection.models.boxes import box_loss, clip, decode, detect, has_area, pick
from opsmith_detection.models.layers import ConvNorm, Norm
from opsmith_detection.models.matching import IGNORED, match, objects_of, sample
from opsmith_detection.models.pixels import scales_of
from opsmith_detection.models.rpn import Proposals
from opsmith_detection.structures import Detections, Targets

__all__ = ["BoxHead", "RoIs", "pool"]

_WEIGHTS = (10.0, 5.0)  # of the coding of boxes
_POOLED = 4  # levels, the finest ones


class RoIs(NamedTuple):
    """Proposals that were drawn for the losses, the foreground first, and their objects."""

    boxes: Tensor  # float32 [B, S, 4]
    is_valid: Tensor  # bool [B, S]
    is_foreground: Tensor  # bool [B, S]
    object_index: Tensor  # int64 [B, S], among those of the image
    label: Tensor  # int64 [B, S], 0 for background

    def first(self, count: int) -> RoIs:
        """Return the first RoIs of each image."""
        return RoIs(*(field[:, :count] for field in self))


def pool(levels: Sequence[Tensor], boxes: Tensor, is_valid: Tensor, bins: int) -> Tensor:
    """Return the features of the boxes of each image, [B, K, 4], as [B K, C, bins, bins]: zeros where they are not valid."""
    images = torch.arange(len(boxes), device=boxes.device)[:, None]
    rois = torch.cat([torch.where(is_valid, images, -1)[..., None], boxes], -1)
    levels = levels[:_POOLED]
    pooled = roi_align_pyramid(levels, rois.flatten(0, 1), bins, scales_of(levels), sampling_ratio=2)
    if pooled.requires_grad and pooled.is_contiguous(memory_format=torch.channels_last):
        # Linear layers take a box's features in another order, in which its gradients would be spread over the levels and
        # added to those of convolutions.
        pooled.register_hook(lambda gradient: gradient.contiguous(memory_format=torch.channels_last))
    return pooled


class BoxHead(nn.Module):
    """Classifies proposals and moves them, for each class."""

    def __init__(self, channels: int, classes: int, config: BoxHeadConfig, norm: Norm) -> None:
        super().__init__()
        self.config = config
        self.convs = nn.ModuleList(ConvNorm(channels, channels, norm=norm) for _ in range(config.convs))
        inputs = (channels * config.pooled**2, *[config.channels] * config.linears)
        self.linears = nn.ModuleList(map(nn.Linear, inputs[:-1], inputs[1:]))
        self.classes = nn.Linear(inputs[-1], classes + 1)
        self.deltas = nn.Linear(inputs[-1], 4 * (classes + 1))

    def forward(self, levels: Sequence[Tensor], boxes: Tensor, is_valid: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits [B, K, classes + 1] and the offsets [B, K, classes + 1, 4] of boxes [B, K, 4], in float32."""
        x = pool(levels, boxes, is_valid, self.config.pooled)
        for conv in self.convs:
            x = conv(x, valid=is_valid.flatten())
        x = x.flatten(1)
        for linear in self.linears:
            x = linear(x).relu_()
        shape = is_valid.shape
        return self.classes(x).float().view(*shape, -1), self.deltas(x).float().view(*shape, -1, 4)

    @torch.no_grad()
    def draw(self, proposals: Proposals, targets: Targets) -> RoIs:
        """Match proposals, and the objects themselves, to the objects, and draw those of the losses."""
        config = self.config
        objects, is_object = objects_of(targets)
        boxes = torch.cat([proposals.boxes, objects], 1)
        is_valid = torch.cat([proposals.is_valid, is_object], 1)
        matched, kind = match(objects, boxes, config.foreground_iou, config.foreground_iou, best_too=False)
        samples = sample(torch.where(is_valid, kind, IGNORED), config.samples, config.positive_fraction)
        object_index = matched.gather(1, samples.chosen)
        label = torch.where(samples.is_foreground, targets.labels.gather(1, object_index), 0)
        return RoIs(pick(boxes, samples.chosen), samples.is_valid, samples.is_foreground, object_index, label)

    def losses(self, predicted: tuple[Tensor, Tensor], rois: RoIs, targets: Targets) -> dict[str, Tensor]:
        """Return the losses of what `forward` gave for RoIs."""
        logits, deltas = predicted
        count = rois.is_valid.sum().clamp(min=1)
        of_class = functional.cross_entropy(logits.flatten(0, 1), rois.label.flatten(), reduction="none")
        of_label = deltas.gather(2, rois.label[..., None, None].expand(-1, -1, 1, 4)).squeeze(2)
        moved = box_loss(of_label, pick(targets.boxes, rois.object_index), rois.boxes, rois.is_foreground, _WEIGHTS)
        return {
            "loss_classifier": torch.where(rois.is_valid.flatten(), of_class, 0.0).sum() / count,
            "loss_box_reg": moved / count,
        }

    def detect(self, predicted: tuple[Tensor, Tensor], proposals: Proposals, sizes: Tensor) -> Detections:
        """Return what `forward` gave for proposals as detections of images with these sizes, [B, 2]."""
        config = self.config
        logits, deltas = predicted
        scores = logits.softmax(-1)[..., 1:]
        scores = torch.where(proposals.is_valid[..., None] & (scores > config.score_threshold), scores, -1.0)
        classes = scores.shape[2]
        best, index = scores.flatten(1).topk(min(config.candidates, scores.shape[1] * classes))
        proposal, label = index.div(classes, rounding_mode="floor"), index % classes + 1
        moves = pick(deltas.flatten(1, 2), proposal * (classes + 1) + label)
        boxes = clip(decode(moves, pick(proposals.boxes, proposal), _WEIGHTS), sizes)
        best = torch.where(has_area(boxes, 1e-2), best, -1.0)
        return detect(boxes, best, label, classes + 1, config.nms_iou, config.detections)
