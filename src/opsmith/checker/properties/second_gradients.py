"""Checks that gradients of gradients are right or refused: against autograd's through the reference, in float64."""

from __future__ import annotations

import itertools
from dataclasses import replace

import torch

from opsmith.checker.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.checker.properties.agreement import RefusedError
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.gradient_cases import MOST_ELEMENTS, request_of, why_no_gradient
from opsmith.checker.properties.gradients import NotRegisteredError, Wrong, first_wrong
from opsmith.subject.case import Case
from opsmith.subject.derivatives import (
    GradientRequest,
    first_line,
    is_refusal,
    no_gradient_registered,
    second_gradients,
)

__all__ = ["second_gradient"]


def second_gradient(context: Context) -> Outcome:
    """Gradients of gradients: right, or refused. In the first type of several whose first gradients are right."""
    if (reason := why_no_gradient(context)) is not None:
        return not_run(reason)
    for dtypes in _by_precision(context):
        if (found := _in_types_of(replace(context, dtypes=dtypes))) is not None:
            return found
    return not_run("the first gradient or the results are already wrong")


def _by_precision(context: Context) -> list[dict[str, str]]:
    """Return element types to try, each once: float64, which shows most, float32, and those of the context."""
    own = dict(context.dtypes)
    floating = [name for name, dtype in own.items() if getattr(torch, dtype).is_floating_point]
    found: list[dict[str, str]] = []
    for dtypes in (*(own | dict.fromkeys(floating, dtype) for dtype in ("float64", "float32")), own):
        if dtypes not in found:
            found.append(dtypes)
    return found


def _in_types_of(context: Context) -> Outcome | None:
    """Return the outcome in the types of a context, None where the first gradients are wrong or refused there."""
    compared = 0
    plain = context.subject.suite.cases(context.dtypes, "plain")
    small = (case for case in plain if case.elements <= MOST_ELEMENTS)
    for case in itertools.islice(small, 2):
        try:
            request = request_of(context, case)
            if request is None or not _has_second(context, case, request):
                continue
            if first_wrong(context, case, request) is not None:
                return None
            wrong = _wrong_second(context, case, request)
        except (RefusedError, NotRegisteredError) as error:
            return not_run(str(error))
        compared += 1
        if wrong is not None:
            return failed(Finding(f"{case.label}: {wrong.message}", case, wrong.hint), inputs=compared)
    if compared == 0:
        return not_run("the reference has no second gradient, or takes no float64")
    return passed(compared)


def _has_second(context: Context, case: Case, request: GradientRequest) -> bool:
    try:
        found = second_gradients(context.subject, context.subject.reference, case.build(context.device), request)
    except Exception:
        return False
    return found is not None and any(bool(one.any()) for one in found)


def _wrong_second(context: Context, case: Case, request: GradientRequest) -> Wrong | None:
    subject = context.subject
    expected = second_gradients(subject, subject.reference, case.build(context.device), request)
    assert expected is not None
    context.tell(case)
    with no_gradient_registered() as is_unregistered:
        try:
            found = second_gradients(subject, subject.kernel, case.build(context.device), request)
        except Exception as error:
            if is_refusal(error):
                raise NotRegisteredError(f"the second gradient is rejected: {first_line(error)}") from error
            return Wrong(f"the second gradient raises {type(error).__name__}: {first_line(error)}")
        if is_unregistered():
            raise NotRegisteredError("no second gradient is registered: PyTorch warns of it in a backward")
    if found is None:
        return Wrong(
            "with create_graph=True the gradients have no graph: second gradients are silently zero",
            "Have the backward call operators that have gradients themselves, or reject it (once_differentiable).",
        )
    names = [*request.inputs, *(f"the gradient of output {index}" for index in request.outputs)]
    if len(found) != len(expected):
        return Wrong("some outputs have no gradient, and so no second gradient")
    for name, one, other in zip(names, found, expected, strict=True):
        tolerance = float(torch.finfo(other.dtype).eps ** 0.5)  # far from a wrong formula, and sums may have any order
        # What cancels in a sum leaves roundings as large as its terms, which matters in the shorter types alone.
        largest = (
            float(other.abs().nan_to_num(posinf=0.0).max()) if other.dtype != torch.float64 and other.numel() else 1.0
        )
        near = torch.isclose(one, other, rtol=tolerance, atol=tolerance * max(largest, 1.0), equal_nan=True)
        if not near.all():
            worst = int((one - other).abs().masked_fill(near, -1).nan_to_num(nan=torch.inf).reshape(-1).argmax())
            return Wrong(
                f"the second gradient with respect to {name} is {float(one.reshape(-1)[worst]):.9g} at element {worst}, "
                f"the reference has {float(other.reshape(-1)[worst]):.9g}"
            )
    return None
