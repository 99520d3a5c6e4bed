"""Checks the forward-mode derivatives of an operator."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd import forward_ad

from opsmith.checker.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.checker.properties.agreement import RefusedError, disagreement
from opsmith.checker.properties.context import Context
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
    NoGradientError,
    first_line,
    gradients,
)

__all__ = ["jvp"]


def jvp(context: Context) -> Outcome:
    """Forward-mode derivatives, by torch.func.jvp and by dual numbers: right, or refused with an exception."""
    try:
        plain = plain_call(context)
        inputs = plain.inputs(context)
        tangents = [direction(tensor, index) for index, tensor in enumerate(inputs)]
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


def _reference_jvp(
    context: Context, plain: PlainCall, inputs: list[Tensor], tangents: list[Tensor]
) -> list[list[Tensor]]:
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
        elif not is_close(one, other):
            return f"the tangent of output {index}, for {names}, is {first_wrong(one, other)} from the reference's"
    return None


def _judged_jvp(context: Context, plain: PlainCall, message: str) -> Outcome:
    try:
        refuse_generated(context, plain, "forward mode and gives zero tangents")
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
