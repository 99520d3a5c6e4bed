"""The four operators that focal loss consists of: for targets as probabilities or as class indices, summed or not."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

import opsmith

__all__ = ["focal_loss", "focal_loss_classes", "focal_loss_classes_sum", "focal_loss_sum"]


@opsmith.op(cpu="dense.cpp", cuda="dense.cu", outputs="loss")
def focal_loss(
    inputs: Float[Tensor, "*shape"], targets: Float[Tensor, "*shape"], alpha: float = 0.25, gamma: float = 2.0
) -> Float[Tensor, "*shape"]:
    """The loss of each element: alpha_t (1 - p_t)^gamma times the cross-entropy of sigmoid(inputs) and targets.

    A target is the probability of the positive class. alpha < 0 leaves out alpha_t.
    """
    wrong, cross_entropy, weight = _parts(inputs, targets, alpha)
    return weight * (cross_entropy * wrong**gamma)


@focal_loss.examples
def _saturated() -> list[dict[str, object]]:
    """Predictions that are right or wrong to the last bit, with powers of the error that have no code of their own."""
    inputs = torch.tensor([1000.0, -1000.0, 1000.0, -1000.0, 3.0, -3.0, 0.0])
    targets = torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.25])
    return [{"inputs": inputs, "targets": targets, "alpha": 0.25, "gamma": gamma} for gamma in (2.5, 2.0)]


@focal_loss.backward(cpu="dense.cpp", cuda="dense.cu")
def focal_loss_backward(
    grad_loss: Float[Tensor, "*shape"],
    inputs: Float[Tensor, "*shape"],
    targets: Float[Tensor, "*shape"],
    alpha: float,
    gamma: float,
    needs_grad_targets: bool,
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """The gradients from the inputs again: what could be saved is as large as they are."""
    by_inputs, by_targets = _slopes(inputs, targets, alpha, gamma)
    return grad_loss * by_inputs, grad_loss * by_targets if needs_grad_targets else inputs.new_empty([0] * inputs.dim())


@opsmith.op(cpu="dense.cpp", cuda="dense.cu", outputs="loss")
def focal_loss_sum(
    inputs: Float[Tensor, "*shape"],
    targets: Float[Tensor, "*shape"],
    alpha: float = 0.25,
    gamma: float = 2.0,
    mean: bool = False,
) -> Float[Tensor, ""]:
    """The sum of `focal_loss` over all elements, or with `mean` that divided by their number; NaN if there are none."""
    loss = focal_loss.reference(inputs, targets, alpha, gamma)
    total: Tensor = loss.mean() if mean else loss.sum()
    return total


@focal_loss_sum.backward(cpu="dense.cpp", cuda="dense.cu")
def focal_loss_sum_backward(
    grad_loss: Float[Tensor, ""],
    inputs: Float[Tensor, "*shape"],
    targets: Float[Tensor, "*shape"],
    alpha: float,
    gamma: float,
    mean: bool,
    needs_grad_targets: bool,
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """The gradients. Computing the slopes again reads no more than a saved gradient would, which had to be written too."""
    each = (grad_loss / inputs.numel() if mean else grad_loss).expand_as(inputs)
    by_inputs, by_targets = focal_loss_backward.reference(each, inputs, targets, alpha, gamma, needs_grad_targets)
    return by_inputs, by_targets


@opsmith.op(cpu="classes.cpp", cuda="classes.cu", outputs="loss")
def focal_loss_classes(
    inputs: Float[Tensor, "*n K"], targets: Int64[Tensor, "*n"], alpha: float = 0.25, gamma: float = 2.0
) -> Float[Tensor, "*n K"]:
    """The loss of each element, for targets that are a class's index in each row; see `sigmoid_focal_loss` for others."""
    positive, rows = _classes(inputs, targets)
    towards = torch.where(positive, inputs, -inputs)
    loss = _class_weight(positive, inputs, rows, alpha) * torch.sigmoid(-towards) ** gamma
    return torch.where(rows < 0, 0.0, loss * -functional.logsigmoid(towards))


@focal_loss_classes.backward(cpu="classes.cpp", cuda="classes.cu")
def focal_loss_classes_backward(
    grad_loss: Float[Tensor, "*n K"],
    inputs: Float[Tensor, "*n K"],
    targets: Int64[Tensor, "*n"],
    alpha: float,
    gamma: float,
) -> Float[Tensor, "*n K"]:
    """The gradient, from the inputs again."""
    positive, rows = _classes(inputs, targets)
    towards = torch.where(positive, inputs, -inputs)
    wrong = torch.sigmoid(-towards)
    slope = wrong**gamma * (wrong - gamma * torch.sigmoid(towards) * functional.logsigmoid(towards))
    gradient = grad_loss * _class_weight(positive, inputs, rows, alpha) * torch.where(positive, -slope, slope)
    return torch.where(rows < 0, 0.0, gradient)


@opsmith.op(cpu="classes.cpp", cuda="classes.cu", outputs="loss")
def focal_loss_classes_sum(
    inputs: Float[Tensor, "*n K"],
    targets: Int64[Tensor, "*n"],
    alpha: float = 0.25,
    gamma: float = 2.0,
    mean: bool = False,
) -> Float[Tensor, ""]:
    """The sum of `focal_loss_classes` over all elements, or with `mean` that divided by their number."""
    loss = focal_loss_classes.reference(inputs, targets, alpha, gamma)
    total: Tensor = loss.mean() if mean else loss.sum()
    return total


@focal_loss_classes_sum.backward(cpu="classes.cpp", cuda="classes.cu")
def focal_loss_classes_sum_backward(
    grad_loss: Float[Tensor, ""],
    inputs: Float[Tensor, "*n K"],
    targets: Int64[Tensor, "*n"],
    alpha: float,
    gamma: float,
    mean: bool,
) -> Float[Tensor, "*n K"]:
    """The gradient; as for `focal_loss_sum` nothing but the inputs is kept for it."""
    each = (grad_loss / inputs.numel() if mean else grad_loss).expand_as(inputs)
    gradient: Tensor = focal_loss_classes_backward.reference(each, inputs, targets, alpha, gamma)
    return gradient


def _parts(inputs: Tensor, targets: Tensor, alpha: float) -> tuple[Tensor, Tensor, Tensor | float]:
    """Return 1 - p_t, the cross-entropy and alpha_t."""
    others = 1 - targets
    wrong = torch.sigmoid(inputs) * others + torch.sigmoid(-inputs) * targets
    cross_entropy = -(functional.logsigmoid(-inputs) * others + functional.logsigmoid(inputs) * targets)
    return wrong, cross_entropy, alpha * targets + (1 - alpha) * others if alpha >= 0 else 1.0


def _slopes(inputs: Tensor, targets: Tensor, alpha: float, gamma: float) -> tuple[Tensor, Tensor]:
    """Return the derivatives of the loss by inputs and by targets.

    (1 - p_t)^(gamma - 1) is taken of a number above 0 where 1 - p_t is 0. What it is multiplied with is 0 there, and that
    is the limit; autograd would find 0 times infinity for gamma < 1.
    """
    wrong, cross_entropy, weight = _parts(inputs, targets, alpha)
    p, q = torch.sigmoid(inputs), torch.sigmoid(-inputs)
    power = wrong**gamma
    rise = gamma * torch.where(wrong == 0, torch.finfo(wrong.dtype).tiny, wrong) ** (gamma - 1)
    by_inputs = power * (p * (1 - targets) - q * targets) + rise * p * q * (1 - 2 * targets) * cross_entropy
    by_targets = weight * (rise * (q - p) * cross_entropy - power * inputs)
    if alpha >= 0:
        by_targets = by_targets + (2 * alpha - 1) * power * cross_entropy
    return weight * by_inputs, by_targets


def _classes(inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return which elements are their row's class, and the targets as a column."""
    rows = targets.unsqueeze(-1)
    return rows == torch.arange(inputs.shape[-1], device=inputs.device), rows


def _class_weight(positive: Tensor, inputs: Tensor, rows: Tensor, alpha: float) -> Tensor:
    """Return alpha_t; NaN in rows of a class that there is not."""
    others, own = (1 - alpha, alpha) if alpha >= 0 else (1.0, 1.0)
    weight = torch.full_like(inputs, others).masked_fill(positive, own)
    return weight.masked_fill(rows > inputs.shape[-1], math.nan)
