"""sigmoid_focal_loss as a module."""

from __future__ import annotations

from torch import Tensor, nn

from opsmith.ops.sigmoid_focal_loss.functions import sigmoid_focal_loss

__all__ = ["SigmoidFocalLoss"]


class SigmoidFocalLoss(nn.Module):
    """`sigmoid_focal_loss` as a module, called with logits and targets."""

    def __init__(self, alpha: float = 0.25, gamma: float = 2, reduction: str = "mean") -> None:
        super().__init__()
        self.alpha, self.gamma, self.reduction = alpha, gamma, reduction

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss: of the inputs' shape, or one number, as the reduction says."""
        return sigmoid_focal_loss(inputs, targets, self.alpha, self.gamma, self.reduction)

    def extra_repr(self) -> str:
        """What print(module) shows in the parentheses."""
        return f"alpha={self.alpha}, gamma={self.gamma}, reduction={self.reduction!r}"
