"""The detectors: ResNet and feature pyramid, region proposals, heads, and RetinaNet."""

from __future__ import annotations

import torch
from torch import nn

from opsmith_detection.config import ModelConfig
from opsmith_detection.models.rcnn import GeneralizedRCNN
from opsmith_detection.models.retinanet import RetinaNet
from opsmith_detection.models.weights import load_backbone, read_weights

__all__ = ["build_model"]


def build_model(config: ModelConfig) -> nn.Module:
    """Return a model of this configuration on the CPU, with new weights, in channels_last.

    `model(images, sizes)` gives `Detections`, `model(images, sizes, targets)` a dict of losses; the arguments are those of
    `Batch`. Neither waits for a GPU. The weights of `backbone.weights`, if there are any, are loaded into the ResNet.

    Raises:
        WeightsError: for weights that cannot be read or do not fit.
    """
    model: nn.Module = RetinaNet(config) if config.kind == "retinanet" else GeneralizedRCNN(config)
    if config.backbone.weights is not None:
        load_backbone(model, read_weights(config.backbone.weights))
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
