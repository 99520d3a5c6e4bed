"""sigmoid_focal_loss: the loss of dense detectors, in one pass over the logits."""

from opsmith.ops.sigmoid_focal_loss.loss import SigmoidFocalLoss, sigmoid_focal_loss
from opsmith.ops.sigmoid_focal_loss.operators import (
    focal_loss,
    focal_loss_classes,
    focal_loss_classes_sum,
    focal_loss_sum,
)

__all__ = [
    "SigmoidFocalLoss",
    "focal_loss",
    "focal_loss_classes",
    "focal_loss_classes_sum",
    "focal_loss_sum",
    "sigmoid_focal_loss",
]
