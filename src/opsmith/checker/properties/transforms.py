"""Checks an operator under torch.func: vmap, grad, vjp, jacrev, and forward-mode derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.autograd import forward_ad

from opsmith.checker.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.checker.properties.agreement import RefusedError, disagreement
from opsmith.checker.properties.batching import has_rule, vmap
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.fakes import depends_on_data
from opsmith.checker.properties.gradient_cases import request_of, why_no_gradient
from opsmith.checker.properties.gradients import is_gradient_wrong
from opsmith.subject.case import Case
from opsmith.subject.derivatives import (
    GradientRequest,
    NoGradientError,
    as_function,
    first_line,
    gradients,
    has_autograd_kernel,
    is_generated,
    is_refusal,
    leaves_of,
    materialized,
    no_gradient_registered,
)
from opsmith.subject.values import fill

__all__ = ["func_grad", "jvp", "vmap"]

_GENERATED = (
    "PyTorch's own autograd kernel for this operator (torch.library's, or the one for operators without a gradient) has no "
    "{what}, whatever the operator does"
)


@dataclass(frozen=True)
class _Plain:
    """A plain call, the gradients that it has, and its differentiable inputs."""

    case: Case
    request: GradientRequest

    def inputs(self, context: Context) -> list[Tensor]:
        return leaves_of(self.case.build(context.device), self.request.inputs)

    def function(self, context: Context, function: Callable[..., object]) -> Callable[..., tuple[Tensor, ...]]:
        return as_function(context.subject, function, self.case.build(context.device), self.request)


class NotJudgedError(Exception):
    """The reason why the operator cannot be judged."""


def jvp(context: Context) -> Outcome:
    """Forward-mode derivatives, by torch.func.jvp and by dual numbers: right, or refused with an exception."""
    try:
        plain = _plain(context)
        inputs = plain.inputs(context)
        tangents = [_direction(tensor, index) for index, tensor in enumerate(inputs)]
        expected = _reference_jvp(context, plain, inputs, tangents)
    except NotJudgedError as error:
        return not_run(str(error))
    context.tell(plain.case)
    refusals = 0
    for how in (_by_func, _by_duals):
        for chosen in _each_and_all(len(inputs)):
            # The tangent of a sum is the sum of the tangents: each input's part of what is expected, or all of it.
            wanted = [sum(parts[index] for index in chosen) for parts in expected]
            try:
                found = how(plain.function(context, context.subject.kernel), inputs, tangents, chosen)
            except Exception as error:
                refusals += 1
                refusal = f"{type(error).__name__}: {first_line(error)}"
                continue
            names = ", ".join(plain.request.inputs[index] for index in chosen)
            message = _wrong_tangent(found, wanted, names)  # type: ignore[arg-type]
            if message is not None:
                return _judged_jvp(context, plain, message)
    tried = 2 * len(_each_and_all(len(inputs)))
    return passed(tried, note=f"forward mode is rejected: {refusal}" if refusals == tried else "")


def func_grad(context: Context) -> Outcome:
    """torch.func.grad, vjp, jacrev and vmap of grad give what torch.autograd.grad gives."""
    try:
        plain = _plain(context)
        _refuse_generated(context, plain, "torch.func transforms")
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
            if not _is_close(one, other):
                message = (
                    f"torch.func.{name} with respect to {input_name} is {_first_wrong(one, other)} from "
                    "torch.autograd.grad"
                )
                if is_gradient_wrong(context, plain.case):
                    return not_run("ordinary gradients are already wrong")
                return failed(Finding(message, plain.case), inputs=compared)
    return passed(compared)


def _raised(context: Context, plain: _Plain, name: str, error: Exception) -> Outcome:
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


def _plain(context: Context) -> _Plain:
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
    return _Plain(case, request)


def _refuse_generated(context: Context, plain: _Plain, what: str) -> None:
    try:
        generated = is_generated(context.subject, plain.case, plain.request.inputs, context.device)
    except Exception as error:
        raise NotJudgedError(f"the kernel raises {type(error).__name__}: {first_line(error)}") from error
    if generated:
        raise NotJudgedError(_GENERATED.format(what=what))


def _reference_jvp(context: Context, plain: _Plain, inputs: list[Tensor], tangents: list[Tensor]) -> list[list[Tensor]]:
    """Return for each output the tangents that each input causes."""
    function = plain.function(context, context.subject.reference)
    parts = []
    for index in range(len(inputs)):
        only = [tangent if i == index else torch.zeros_like(tangent) for i, tangent in enumerate(tangents)]
        try:
            # By reverse mode applied twice: not every reference has forward formulas.
            found = torch.autograd.functional.jvp(function, tuple(inputs), tuple(only))[1]
        except Exception as error:
            raise NotJudgedError(f"the reference has no derivatives to compare with: {first_line(error)}") from error
        parts.append(found)
    return [list(output) for output in zip(*parts, strict=True)]


def _each_and_all(count: int) -> list[tuple[int, ...]]:
    return [tuple(range(count)), *((index,) for index in range(count) if count > 1)]


def _by_func(
    function: Callable[..., tuple[Tensor, ...]], inputs: list[Tensor], tangents: list[Tensor], chosen: tuple[int, ...]
) -> list[Tensor | None]:
    def of_chosen(*some: Tensor) -> tuple[Tensor, ...]:
        given = list(inputs)
        for index, tensor in zip(chosen, some, strict=True):
            given[index] = tensor
        return function(*given)

    found = torch.func.jvp(of_chosen, tuple(inputs[i] for i in chosen), tuple(tangents[i] for i in chosen))[1]
    return list(found)


def _by_duals(
    function: Callable[..., tuple[Tensor, ...]], inputs: list[Tensor], tangents: list[Tensor], chosen: tuple[int, ...]
) -> list[Tensor | None]:
    with forward_ad.dual_level():
        given = [
            forward_ad.make_dual(tensor, tangents[i]) if i in chosen else tensor for i, tensor in enumerate(inputs)
        ]
        return [forward_ad.unpack_dual(output).tangent for output in function(*given)]


def _wrong_tangent(found: list[Tensor | None], expected: list[Tensor], names: str) -> str | None:
    for index, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one is None or not bool(one.any()):
            if bool(other.any()):
                return f"the tangent of output {index} is silently {'missing' if one is None else 'zero'}, for {names}"
        elif not _is_close(one, other):
            return f"the tangent of output {index}, for {names}, is {_first_wrong(one, other)} from the reference's"
    return None


def _judged_jvp(context: Context, plain: _Plain, message: str) -> Outcome:
    try:
        _refuse_generated(context, plain, "forward mode and gives zero tangents")
    except NotJudgedError as error:
        return not_run(str(error))
    try:
        gradients(context.subject, context.subject.kernel, plain.case.build(context.device), plain.request)
    except NoGradientError:
        return not_run("gradients are already lost, in reverse mode as in forward mode")
    except Exception as error:
        return not_run(f"gradients are rejected: {first_line(error)}")
    try:
        if disagreement(context, plain.case) is not None:
            return not_run("the results are already wrong, and so are their tangents")
    except RefusedError as error:
        return not_run(str(error))
    hint = "Forward mode must give the derivative or raise, as torch.autograd.Function without a jvp does."
    return failed(Finding(f"{plain.case.label}: {message}", plain.case, hint))


def _autograd(context: Context, plain: _Plain, total: Callable[..., Tensor]) -> list[Tensor]:
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


def _total_of(context: Context, plain: _Plain) -> Callable[..., Tensor]:
    """Return the weighted sum of all outputs, as a function of the differentiable inputs."""
    function = plain.function(context, context.subject.kernel)
    # The weights are made here: under torch.vmap nothing random may be.
    weights = [_direction(output, 7 + index) for index, output in enumerate(function(*plain.inputs(context)))]

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


def _direction(tensor: Tensor, seed: int) -> Tensor:
    return fill(tuple(tensor.shape), tensor.dtype, "normal", 6007 + seed).to(tensor.device)


def _is_close(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape:
        return False
    tolerance = 8 * torch.finfo(other.dtype).eps ** 0.75 if other.dtype.is_floating_point else 0.0
    return torch.allclose(one.to(other.dtype), other, rtol=tolerance, atol=tolerance, equal_nan=True)


def _first_wrong(one: Tensor, other: Tensor) -> str:
    if one.shape != other.shape:
        return f"of shape {tuple(one.shape)}, which differs in shape {tuple(other.shape)}"
    worst = int((one - other).abs().nan_to_num(nan=torch.inf).reshape(-1).argmax())
    return f"{float(one.reshape(-1)[worst]):.9g} at element {worst}, unlike {float(other.reshape(-1)[worst]):.9g}"
