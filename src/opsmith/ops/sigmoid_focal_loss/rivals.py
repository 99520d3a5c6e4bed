"""Defines the focal loss that ours is timed against: the composition that torchvision and fvcore use."""

from __future__ import annotations

from torch import Tensor, sigmoid
from torch.nn import functional

from opsmith.ops.sigmoid_focal_loss.operator import focal_loss, focal_loss_classes_sum, focal_loss_sum

__all__: list[str] = []


def _composition(inputs: Tensor, targets: Tensor, alpha: float, gamma: float) -> Tensor:
    p = sigmoid(inputs)
    cross_entropy = functional.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    p_t = p * targets + (1 - p) * (1 - targets)
    loss = cross_entropy * ((1 - p_t) ** gamma)
    return (alpha * targets + (1 - alpha) * (1 - targets)) * loss if alpha >= 0 else loss


@focal_loss.versus("torchvision")
def _torchvision(inputs: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2.0) -> Tensor:
    return _composition(inputs, targets, alpha, gamma)


@focal_loss_sum.versus("torchvision")
def _torchvision_sum(
    inputs: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2.0, mean: bool = False
) -> Tensor:
    loss = _composition(inputs, targets, alpha, gamma)
    return loss.mean() if mean else loss.sum()


@focal_loss_classes_sum.versus("torchvision")
def _torchvision_classes_sum(
    inputs: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2.0, mean: bool = False
) -> Tensor:
    # Its users make the one-hot matrix; the class K, the background, is cut off again.
    dense = functional.one_hot(targets, inputs.shape[-1] + 1)[..., :-1].to(inputs.dtype)
    loss = _composition(inputs, dense, alpha, gamma)
    return loss.mean() if mean else loss.sum()
