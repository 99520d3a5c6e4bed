"""sigmoid_focal_loss by the arguments of `mmcv.ops`: gamma before alpha, weights of classes, and a mean over rows."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from opsmith.ops._arguments import (
    TensorShapeError,
    TensorTypeError,
    check_choice,
    check_promotable,
    check_storage,
    check_tensors,
)
from opsmith.ops.sigmoid_focal_loss import functions

__all__ = ["SigmoidFocalLoss", "sigmoid_focal_loss"]


def sigmoid_focal_loss(
    input: Tensor,  # noqa: A002 -- as mmcv calls it
    target: Tensor,
    gamma: float = 2.0,
    alpha: float = 0.25,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the focal loss of logits [N, K] and class indices, int64 [N]: `mmcv.ops.sigmoid_focal_loss`.

    "mean" divides the sum by N, not by the number of logits. `weight` [K] multiplies the losses of a row by the weight of
    its class; rows of the background (K), and ignored ones (negative), have the weight 1. All else is as for
    `opsmith.ops.sigmoid_focal_loss`. Other types and shapes raise what is an AssertionError, too.
    """
    _check_rows(input, target, weight)
    check_choice("sigmoid_focal_loss", "reduction", reduction, ("none", "mean", "sum"))
    if weight is None and reduction != "mean":
        return functions.sigmoid_focal_loss(input, target, alpha, gamma, reduction)
    if weight is None:
        return functions.sigmoid_focal_loss(input, target, alpha, gamma, "sum") / input.size(0)
    classes = input.size(1)
    has_class = (target >= 0) & (target < classes)
    row_weight = torch.where(has_class, weight[target.clamp(0, classes - 1)], 1.0)
    each = functions.sigmoid_focal_loss(input, target, alpha, gamma, "none") * row_weight[:, None]
    if reduction == "none":
        return each
    return each.sum() / input.size(0) if reduction == "mean" else each.sum()


def _check_rows(input: Tensor, target: Tensor, weight: Tensor | None) -> None:  # noqa: A002
    name = "sigmoid_focal_loss"
    check_tensors(name, optional=("weight",), input=input, target=target, weight=weight)
    check_storage(name, input=input, target=target, weight=weight)
    if weight is not None:
        check_promotable(name, input=input, weight=weight)
    if target.dtype != torch.long:
        raise TensorTypeError(f"{name}(): target is {target.dtype}, expected torch.int64: the class of each row")
    if input.dim() != 2 or target.shape != input.shape[:1] or (weight is not None and weight.shape != input.shape[1:]):
        found = ", ".join(
            f"{argument} {list(tensor.shape)}"
            for argument, tensor in (("input", input), ("target", target), ("weight", weight))
            if tensor is not None
        )
        raise TensorShapeError(f"{name}(): found {found}, expected input [N, K], target [N] and weight [K]")


class SigmoidFocalLoss(nn.Module):
    """`sigmoid_focal_loss` as a module, called with logits and class indices."""

    weight: Tensor | None

    def __init__(self, gamma: float, alpha: float, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.gamma, self.alpha, self.reduction = gamma, alpha, reduction
        self.register_buffer("weight", weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:  # noqa: A002
        """Return the loss: [N, K], or one number, as the reduction says."""
        return sigmoid_focal_loss(input, target, self.gamma, self.alpha, self.weight, self.reduction)

    def extra_repr(self) -> str:
        """What print(module) shows in the parentheses."""
        return f"gamma={self.gamma}, alpha={self.alpha}, reduction={self.reduction}"
