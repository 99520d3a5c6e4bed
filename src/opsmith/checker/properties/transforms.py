"""Checks the gradient of an operator under torch.func: grad, vjp, jacrev, and vmap of grad."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from opsmith.checker.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.checker.properties.batching import has_rule
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.fakes import depends_on_data
from opsmith.checker.properties.gradients import is_gradient_wrong
from opsmith.checker.properties.plain_calls import (
    NotJudgedError,
    PlainCall,
    direction,
    first_wrong,
    is_close,
    plain_call,
    refuse_generated,
)
from opsmith.subject.derivatives import (
    first_line,
    is_refusal,
    materialized,
    no_gradient_registered,
)

__all__ = ["func_grad"]


def func_grad(context: Context) -> Outcome:
    """torch.func.grad, vjp, jacrev and vmap of grad give what torch.autograd.grad gives."""
    try:
        plain = plain_call(context)
        refuse_generated(context, plain, "torch.func transforms")
        total = _total_of(context, plain)
        expected = _autograd(context, plain, total)
    except NotJudgedError as error:
        return not_run(str(error))
    context.tell(plain.case)
    inputs = plain.inputs(context)
    # Samples have results of different sizes where these depend on the data.
    values = plain.case.build(context.device)
    is_batched = has_rule(context.subject) and not depends_on_data(context.subject, values)
    compared = 0
    for name, transform in _TRANSFORMS.items():
        if name.startswith("vmap") and not is_batched:
            continue
        try:
            found = transform(total, inputs)
        except Exception as error:
            return _raised(context, plain, name, error)
        compared += 1
        for input_name, one, other in zip(plain.request.inputs, found, expected, strict=True):
            if not is_close(one, other):
                message = (
                    f"torch.func.{name} with respect to {input_name} is {first_wrong(one, other)} from "
                    "torch.autograd.grad"
                )
                if is_gradient_wrong(context, plain.case):
                    return not_run("ordinary gradients are already wrong")
                return failed(Finding(message, plain.case), inputs=compared)
    return passed(compared)


def _raised(context: Context, plain: PlainCall, name: str, error: Exception) -> Outcome:
    """Return the outcome of a transform that raises: a refusal, a finding, or neither where it does not take the body."""
    if is_refusal(error):
        return not_run(f"torch.func.{name} is rejected: {first_line(error)}")
    body = replace(context, subject=replace(context.subject, kernel=context.subject.reference))
    try:
        _TRANSFORMS[name](_total_of(body, plain), plain.inputs(context))
    except Exception as other:
        # The operator's gradient may be the body's.
        return not_run(f"torch.func.{name} does not take the body by itself: {first_line(other)}")
    return failed(Finding(f"torch.func.{name} raises {type(error).__name__}: {first_line(error)}", plain.case))


def _autograd(context: Context, plain: PlainCall, total: Callable[..., Tensor]) -> list[Tensor]:
    """Return the gradients that autograd gives for the kernel: whether those are right is another property's."""
    with no_gradient_registered() as is_unregistered:
        leaves = [tensor.detach().requires_grad_() for tensor in plain.inputs(context)]
        try:
            found = torch.autograd.grad(total(*leaves), leaves, allow_unused=True)
        except Exception as error:
            raise NotJudgedError(f"there is no gradient to compare with: {first_line(error)}") from error
        if is_unregistered():
            raise NotJudgedError("no gradient is registered")
    return materialized(found, leaves)


def _total_of(context: Context, plain: PlainCall) -> Callable[..., Tensor]:
    """Return the weighted sum of all outputs, as a function of the differentiable inputs."""
    function = plain.function(context, context.subject.kernel)
    # The weights are made here: under torch.vmap nothing random may be.
    weights = [direction(output, 7 + index) for index, output in enumerate(function(*plain.inputs(context)))]

    def total(*tensors: Tensor) -> Tensor:
        sums = [(output * weight).sum() for output, weight in zip(function(*tensors), weights, strict=True)]
        return torch.stack([one.to(sums[0].dtype) for one in sums]).sum()

    return total


def _grad(total: Callable[..., Tensor], inputs: list[Tensor]) -> list[Tensor]:
    return list(torch.func.grad(total, argnums=tuple(range(len(inputs))))(*inputs))


def _vjp(total: Callable[..., Tensor], inputs: list[Tensor]) -> list[Tensor]:
    output, pull = torch.func.vjp(total, *inputs)[:2]
    return list(pull(torch.ones_like(output)))


def _jacrev(total: Callable[..., Tensor], inputs: list[Tensor]) -> list[Tensor]:
    factors = torch.tensor([1.0, 2.0, -1.0], device=inputs[0].device, dtype=inputs[0].dtype)

    def multiples(*tensors: Tensor) -> Tensor:
        # Three numbers and not one, so that several gradients are taken at once.
        return total(*tensors) * factors

    found = torch.func.jacrev(multiples, argnums=tuple(range(len(inputs))))(*inputs)
    return [(jacobian[0] + jacobian[1] + jacobian[2]) / 2 for jacobian in found]


def _vmap_of_grad(total: Callable[..., Tensor], inputs: list[Tensor]) -> list[Tensor]:
    def each(*tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(_grad(total, list(tensors)))

    stacked = [torch.stack([tensor + 1, tensor]) for tensor in inputs]
    return [gradient[1] for gradient in torch.vmap(each)(*stacked)]


_TRANSFORMS: dict[str, Callable[[Callable[..., Tensor], list[Tensor]], list[Tensor]]] = {
    "grad": _grad,
    "vjp": _vjp,
    "jacrev": _jacrev,
    "vmap of grad": _vmap_of_grad,
}
