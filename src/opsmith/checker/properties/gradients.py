"""Checks first gradients against autograd's through the reference, and in float64 against finite differences too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from opsmith.checker.calls import is_gradient_of_body
from opsmith.checker.outcome import Finding, Found, Outcome, failed, not_run, passed
from opsmith.checker.particulars import named
from opsmith.checker.process.timed_cases import TimedCases
from opsmith.checker.properties.agreement import RefusedError, agrees, is_repeatable
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.gradient_cases import (
    differentiable_case,
    gradient_cases,
    request_of,
    requests_of,
    why_no_gradient,
)
from opsmith.checker.properties.gradient_oracle import eased, expected_gradients, without_overflow
from opsmith.checker.properties.promises import broken_promise
from opsmith.checker.properties.recorded_results import wrong_where_recorded
from opsmith.checker.properties.unproven import Refusal, unproven
from opsmith.checker.shrink import sizes_of, smallest
from opsmith.subject.case import Case
from opsmith.subject.derivatives import (
    GradientRequest,
    NoGradientError,
    as_function,
    differentiable_inputs,
    first_line,
    has_autograd_kernel,
    is_refusal,
    leaves_of,
    materialized,
    no_gradient_registered,
    results_and_gradients,
    with_leaves,
)
from opsmith.subject.oracle import Expected, compare

__all__ = [
    "NOT_REGISTERED",
    "NotRegisteredError",
    "Wrong",
    "first_wrong",
    "gradient",
    "is_gradient_wrong",
    "wrong_gradient",
]

_RECORDED_HINT = "Compute the same results whether or not something is kept for the backward."
# How the reason begins for which an operator that says that it has no gradient is not asked for one.
NOT_REGISTERED = "no gradient is registered"
_BODY = "PyTorch computes it through the body, so few sizes and values are tried"
_LOW_PRECISION = (
    "compared with the reference's gradient; finite differences mean nothing in {dtype}, where one rounding is as "
    "large as the step"
)


class NotRegisteredError(Exception):
    """The operator has no gradient, and says so."""


@dataclass(frozen=True)
class Wrong:
    """What is wrong with a gradient, in words; a smaller call has to have the same kind of failure."""

    message: str
    hint: str = ""
    kind: str = "refused"


@dataclass
class _Tried:
    """What a run over the cases came to: gradients compared, those of results that are wrong already, and refusals."""

    compared: int = 0
    skipped: int = 0
    refused: list[Refusal] = field(default_factory=list)


def gradient(context: Context) -> Outcome:
    """First gradients: of every input, through every output, for every layout of what arrives from behind.

    The results of the same calls too, where they are others than without a gradient.
    """
    if (reason := why_no_gradient(context)) is not None:
        return _undifferentiable(context, reason, differentiable_case(context)[1])
    tried = _Tried()
    cases = TimedCases(context, gradient_cases(context))
    try:
        found = _first_failure(context, cases, tried)
    except NotRegisteredError as error:
        return not_run(f"{NOT_REGISTERED}: {error}")
    if found is not None:
        return found
    if tried.skipped == tried.compared:
        reason = "the results are already wrong, and gradients depend on them"
        if tried.compared == 0:
            reason = f"the reference cannot be differentiated for any of {len(tried.refused)} inputs"
        return _undifferentiable(context, reason, [] if tried.compared else tried.refused)
    finding = None if context.is_limited and cases.left_out else _numeric(context)
    if context.is_main_type:
        finding = finding or broken_promise(context)
    if finding is not None:
        return failed(finding, inputs=tried.compared)
    is_low = context.dtype not in ("", "float64")
    note = _LOW_PRECISION.format(dtype=context.dtype) if is_low else ""
    if is_gradient_of_body(context.subject):
        note = "; ".join(filter(None, (_BODY, note)))
    return passed(tried.compared, refused=len(tried.refused), left_out=cases.left_out, note=note)


def _first_failure(context: Context, cases: TimedCases, tried: _Tried) -> Outcome | None:
    """Return the failure of the first case with a wrong gradient; raises NotRegisteredError if there are no gradients."""
    for case in cases:
        try:
            for request in requests_of(context, case):
                wrong = first_wrong(context, case, request)
                tried.compared += 1
                if wrong is None:
                    continue
                if not agrees(context, case):
                    tried.skipped += 1
                    break
                return _found(context, case, request, wrong, tried.compared)
        except RefusedError as error:
            tried.refused.append(Refusal(case, error))
    return None


def _undifferentiable(context: Context, reason: str, refusals: list[Refusal]) -> Outcome:
    """Return the outcome where nothing was differentiated: a failure if a declared backward was never called for it."""
    is_declared = not is_gradient_of_body(context.subject) and has_autograd_kernel(context.subject, context.device)
    if not refusals or context.is_limited or context.subject.signature is None or not is_declared:
        return not_run(reason)
    return unproven(context, "differentiate", refusals, "; the backward was never called")


def is_gradient_wrong(context: Context, case: Case) -> bool:
    """Whether the first gradients of a call are wrong already, missing or refused."""
    try:
        request = request_of(context, case)
        return request is None or first_wrong(context, case, request) is not None
    except (RefusedError, NotRegisteredError):
        return True


def first_wrong(context: Context, case: Case, request: GradientRequest) -> Wrong | None:
    """Return what is wrong with the gradients; raises RefusedError if the reference has none to compare with."""
    subject = context.subject
    values = case.build(context.device)
    expected = expected_gradients(context, case, request, values)
    context.tell(case)
    with no_gradient_registered() as is_unregistered:
        try:
            results, found = results_and_gradients(subject, subject.kernel, values, request)
        except NoGradientError:
            if not any(bool(value.any()) for value in expected.values):
                return None
            return Wrong(
                "inputs require gradients and no result does: gradients are silently lost",
                "Register a gradient, or have the operator raise where an input requires one.",
                "lost",
            )
        except Exception as error:
            if is_refusal(error):
                raise NotRegisteredError(first_line(error)) from error
            return Wrong(f"the gradient raises {type(error).__name__}: {first_line(error)}", kind=type(error).__name__)
        if is_unregistered():
            raise NotRegisteredError("PyTorch warns about it in a backward, and the gradients stay None")
    # How the gradients of the outputs lie is nothing to the results.
    if request.layout == "contiguous" and (words := wrong_where_recorded(context, case, values, results)):
        return Wrong(words, _RECORDED_HINT, "recorded")
    given = materialized(found, leaves_of(values, request.inputs))
    finite = without_overflow(case, given, expected, [result.detach() for result in results])
    return _compared(context, case, request, found, finite, expected)


def _compared(
    context: Context,
    case: Case,
    request: GradientRequest,
    found: list[Tensor | None],
    finite: list[Tensor],
    expected: Expected,
) -> Wrong | None:
    wrong = compare(finite, expected)
    if wrong is not None and wrong.kind == "value":
        wrong = compare(finite, eased(context, case, request, expected))
    if wrong is None:
        return None
    name = request.inputs[wrong.output]
    if found[wrong.output] is None:
        return Wrong(
            f"{name} gets no gradient{_how(request)}; the reference gives it {wrong.expected:.6g}", kind="lost"
        )
    text = str(wrong).replace(f"output {wrong.output}", f"the gradient of {name}", 1)
    frozen = [other for other in differentiable_inputs(context.subject, case) if other not in request.inputs]
    without = f", where {' and '.join(frozen)} {'require' if len(frozen) > 1 else 'requires'} none" if frozen else ""
    return Wrong(f"{text}{_how(request)}{without}", _hint(request), wrong.kind)


def _numeric(context: Context) -> Finding | None:
    """Compare with finite differences, in float64; what the reference fails too is not a defect."""
    if context.dtype != "float64":
        return None
    subject = context.subject
    case, _ = differentiable_case(context)
    request = request_of(context, case) if case is not None else None
    if case is None or request is None or any(case.tensors()[name].dtype != "float64" for name in request.inputs):
        return None
    context.tell(case)
    message = _gradcheck(context, case, request, subject.kernel)
    if message is None or _gradcheck(context, case, request, subject.reference) is not None:
        return None
    if not agrees(context, case) or not is_repeatable(context, case):
        return None  # Differences of results that are not sure say nothing, and other properties say so.
    return Finding(f"{case.label}: torch.autograd.gradcheck: {message}", case)


def _gradcheck(context: Context, case: Case, request: GradientRequest, function: Callable[..., Any]) -> str | None:
    values, leaves = with_leaves(case.build(context.device), request.inputs)
    call = as_function(context.subject, function, values, request)
    many = sum(leaf.numel() for leaf in leaves) > 40
    try:
        # Whether two runs agree to the bit is another property's.
        torch.autograd.gradcheck(call, tuple(leaves), fast_mode=many, nondet_tol=1e-6, check_undefined_grad=False)
    except Exception as error:
        return first_line(error)
    return None


def _found(context: Context, case: Case, request: GradientRequest, wrong: Wrong, compared: int) -> Outcome:
    def fails(other: Case) -> bool:
        try:
            if not set(request.inputs) <= other.tensors().keys():
                return False
            again = first_wrong(context, other, request)
        except (RefusedError, NotRegisteredError):
            return False
        return again is not None and again.kind == wrong.kind

    def finding(shown: Case, what: Wrong) -> Finding:
        first = case if shown != case else None
        message = named(shown, what.message, sizes_of(shown, context))
        return Finding(message, shown, what.hint, first=first, request=request)

    context.tell(Found(failed(finding(case, wrong), inputs=compared)))
    small = smallest(context, case, fails)
    return failed(finding(small, first_wrong(context, small, request) or wrong), inputs=compared)


def wrong_gradient(context: Context, case: Case) -> str:
    """Return what is wrong with the gradients of one call, named by what is particular about it, or ""."""
    try:
        for request in requests_of(context, case):
            if (wrong := first_wrong(context, case, request)) is not None:
                return named(case, wrong.message, sizes_of(case, context))
        is_plain = case == context.subject.suite.plain(context.dtypes)
        finding = (_numeric(context) or broken_promise(context)) if is_plain else None
    except (RefusedError, NotRegisteredError):
        return ""
    return "" if finding is None else finding.message


def _how(request: GradientRequest) -> str:
    if request.layout == "summed":
        return ", for the gradient that .sum() gives, expanded with strides of 0"
    if request.layout != "contiguous":
        verb = "" if request.layout.startswith("with ") else "that are "
        return f", for gradients of the outputs {verb}{request.layout}"
    return ""


def _hint(request: GradientRequest) -> str:
    if request.layout == "contiguous":
        return ""
    return "Gradients arrive with any strides: index through them, or make them contiguous in the backward."
