"""sigmoid_focal_loss: the loss of dense detectors, in one pass over the logits."""

import opsmith.ops.sigmoid_focal_loss.rivals  # noqa: F401 -- declares what the operators are timed against
from opsmith.ops.sigmoid_focal_loss.functions import sigmoid_focal_loss
from opsmith.ops.sigmoid_focal_loss.module import SigmoidFocalLoss
from opsmith.ops.sigmoid_focal_loss.operator import (
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
