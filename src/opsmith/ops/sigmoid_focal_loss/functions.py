"""sigmoid_focal_loss as torchvision has it."""

from __future__ import annotations

import torch
from torch import Tensor

import opsmith
from opsmith.errors import ArgumentValueError, ShapeError
from opsmith.ops._arguments import check_numbers, check_promotable, check_tensors, check_texts
from opsmith.ops.sigmoid_focal_loss.operator import (
    focal_loss,
    focal_loss_classes,
    focal_loss_classes_sum,
    focal_loss_sum,
)

__all__ = ["sigmoid_focal_loss"]


@opsmith.scriptable
def sigmoid_focal_loss(
    inputs: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2, reduction: str = "none"
) -> Tensor:
    """Return the focal loss of Lin et al., "Focal Loss for Dense Object Detection" (https://arxiv.org/abs/1708.02002).

    With p = sigmoid(inputs) it is `alpha_t * (1 - p_t) ** gamma * cross_entropy`, element by element. It is called as
    `torchvision.ops.sigmoid_focal_loss` is, and takes class indices as targets too.

    Parameters
    ----------
    inputs
        The logits, of any shape; float16, bfloat16, float32 or float64. The arithmetic is float32 or wider.
    targets
        Of the inputs' shape: for each element the probability of the positive class, 0 or 1 as a rule. It has a gradient
        where it asks for one; where its type differs from the inputs', both are promoted. Of the inputs' shape without
        the last dimension, and of integers: the class of each row, as an index into that last dimension of K classes. K
        itself stands for the background, which is not a class; a negative number for a row that is ignored, whose losses and
        gradients are 0. A number above K makes its row NaN, because raising an exception would wait for the GPU.
    alpha
        The weight of positive elements, from 0 to 1; negative ones weigh 1 - alpha. -1 (any negative number) leaves the
        weights out.
    gamma
        The exponent. At p_t = 1 the gradient is 0 for any gamma above 0.
    reduction
        "none" keeps the inputs' shape; "sum" and "mean" return one number, summed in float64 in a fixed order. "mean"
        divides by the number of inputs, those of ignored rows included.

    Raises
    ------
    ArgumentValueError
        For an alpha above 1 or NaN, and an unknown reduction; in torchvision's words.
    ShapeError, DtypeError, DeviceError
        For tensors that do not fit together.
    ArgumentTypeError
        For arguments of another type.
    """
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        check_tensors("sigmoid_focal_loss", inputs=inputs, targets=targets)
        check_numbers("sigmoid_focal_loss", alpha=alpha)
        check_texts("sigmoid_focal_loss", reduction=reduction)
    if not alpha <= 1:
        raise ArgumentValueError(
            f"sigmoid_focal_loss(): Invalid alpha value: {alpha}. alpha must be in the range [0,1] or -1 for ignore."
        )
    if reduction not in ("none", "mean", "sum"):
        raise ArgumentValueError(
            f"sigmoid_focal_loss(): Invalid Value for arg 'reduction': '{reduction} \n"
            " Supported reduction modes: 'none', 'mean', 'sum'"
        )
    is_mean = reduction == "mean"
    if not targets.is_floating_point() and targets.shape == inputs.shape[:-1] and inputs.dim() > 0:
        classes = targets.to(torch.int64)
        if reduction == "none":
            each_class: Tensor = focal_loss_classes(inputs, classes, alpha, gamma)
            return each_class
        of_classes: Tensor = focal_loss_classes_sum(inputs, classes, alpha, gamma, is_mean)
        return of_classes
    if targets.shape != inputs.shape:
        raise ShapeError(
            f"sigmoid_focal_loss(): Target size ({targets.size()}) must be the same as input size ({inputs.size()})"
        )
    if targets.dtype != inputs.dtype:
        if not torch.jit.is_scripting():  # type: ignore[attr-defined]
            check_promotable("sigmoid_focal_loss", inputs=inputs, targets=targets)
        dtype = torch.promote_types(inputs.dtype, targets.dtype)
        inputs, targets = inputs.to(dtype), targets.to(dtype)
    if reduction == "none":
        each: Tensor = focal_loss(inputs, targets, alpha, gamma)
        return each
    total: Tensor = focal_loss_sum(inputs, targets, alpha, gamma, is_mean)
    return total
