"""Finds the plain call whose derivatives torch.func is asked for, and compares derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from opsmith.checker.properties.agreement import RefusedError
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.gradient_cases import request_of, why_no_gradient
from opsmith.subject.case import Case
from opsmith.subject.derivatives import (
    GradientRequest,
    as_function,
    first_line,
    has_autograd_kernel,
    is_generated,
    leaves_of,
)
from opsmith.subject.values import fill

__all__ = ["NotJudgedError", "PlainCall", "direction", "first_wrong", "is_close", "plain_call", "refuse_generated"]

_GENERATED = (
    "PyTorch's own autograd kernel for this operator (torch.library's, or the one for operators without a gradient) has no "
    "{what}, whatever the operator does"
)


@dataclass(frozen=True)
class PlainCall:
    """A plain call, the gradients that it has, and its differentiable inputs."""

    case: Case
    request: GradientRequest

    def inputs(self, context: Context) -> list[Tensor]:
        """Return the differentiable inputs, made anew."""
        return leaves_of(self.case.build(context.device), self.request.inputs)

    def function(self, context: Context, function: Callable[..., object]) -> Callable[..., tuple[Tensor, ...]]:
        """Return the kernel or the reference as a function of those inputs alone."""
        return as_function(context.subject, function, self.case.build(context.device), self.request)


class NotJudgedError(Exception):
    """The reason why the operator cannot be judged."""


def plain_call(context: Context) -> PlainCall:
    """Return the call to differentiate; raises NotJudgedError if there is none."""
    if not has_autograd_kernel(context.subject, context.device):
        raise NotJudgedError("no autograd kernel is registered, and torch.func ignores a gradient from elsewhere")
    if (reason := why_no_gradient(context)) is not None:
        raise NotJudgedError(reason)
    case = context.subject.suite.plain(context.dtypes)
    try:
        request = request_of(context, case)
    except RefusedError as error:
        raise NotJudgedError(str(error)) from error
    if request is None:
        raise NotJudgedError("no output has a gradient")
    return PlainCall(case, request)


def refuse_generated(context: Context, plain: PlainCall, what: str) -> None:
    """Raise NotJudgedError if the gradient is of an autograd kernel of PyTorch's own, which lacks `what`."""
    try:
        generated = is_generated(context.subject, plain.case, plain.request.inputs, context.device)
    except Exception as error:
        raise NotJudgedError(f"the kernel raises {type(error).__name__}: {first_line(error)}") from error
    if generated:
        raise NotJudgedError(_GENERATED.format(what=what))


def direction(tensor: Tensor, seed: int) -> Tensor:
    """Return normal numbers in the shape of a tensor."""
    return fill(tuple(tensor.shape), tensor.dtype, "normal", 6007 + seed).to(tensor.device)


def is_close(one: Tensor, other: Tensor) -> bool:
    """Whether a derivative is another one but for roundings."""
    if one.shape != other.shape:
        return False
    tolerance = 8 * torch.finfo(other.dtype).eps ** 0.75 if other.dtype.is_floating_point else 0.0
    return torch.allclose(one.to(other.dtype), other, rtol=tolerance, atol=tolerance, equal_nan=True)


def first_wrong(one: Tensor, other: Tensor) -> str:
    """Return where a derivative differs most from another one, in words."""
    if one.shape != other.shape:
        return f"of shape {tuple(one.shape)}, which differs in shape {tuple(other.shape)}"
    worst = int((one - other).abs().nan_to_num(nan=torch.inf).reshape(-1).argmax())
    return f"{float(one.reshape(-1)[worst]):.9g} at element {worst}, unlike {float(other.reshape(-1)[worst]):.9g}"
