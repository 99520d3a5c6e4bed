"""Checks first gradients against autograd's through the reference, and in float64 against finite differences too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from opsmith.checker.calls import is_gradient_of_body
from opsmith.checker.outcome import Finding, Found, Outcome, failed, not_run, passed
from opsmith.checker.particulars import named
from opsmith.checker.process.threads import on_threads
from opsmith.checker.process.timed_cases import TimedCases
from opsmith.checker.properties.agreement import RefusedError, agrees, is_repeatable
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.gradient_oracle import eased, expected_gradients, without_overflow
from opsmith.checker.shrink import sizes_of, smallest
from opsmith.subject.case import Case
from opsmith.subject.derivatives import (
    GradientRequest,
    NoGradientError,
    as_function,
    differentiable_inputs,
    differentiable_outputs,
    first_line,
    gradients,
    is_refusal,
    leaves_of,
    materialized,
    no_gradient_registered,
    with_leaves,
)
from opsmith.subject.oracle import compare

__all__ = [
    "MOST_ELEMENTS",
    "NotRegisteredError",
    "Wrong",
    "first_wrong",
    "gradient",
    "is_gradient_wrong",
    "request_of",
    "why_no_gradient",
    "wrong_gradient",
]

MOST_ELEMENTS = 5000
_LONG = 1025
_GROUPS = ("plain", "scalars", "equal", "values", "layouts", "sizes", "empty")
# Where PyTorch takes the gradient through the body, no kernel sees its sizes and values.
_GROUPS_OF_BODY = ("plain", "scalars", "equal", "layouts", "empty")
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


def gradient(context: Context) -> Outcome:
    """First gradients: of every input, through every output, for every layout of what arrives from behind."""
    if (reason := why_no_gradient(context)) is not None:
        return not_run(reason)
    compared, refused, skipped = 0, 0, 0
    cases = TimedCases(context, _cases(context))
    for case in cases:
        try:
            for request in _requests(context, case):
                wrong = first_wrong(context, case, request)
                compared += 1
                if wrong is None:
                    continue
                if not agrees(context, case):
                    skipped += 1
                    break
                return _found(context, case, request, wrong, compared)
        except RefusedError:
            refused += 1
        except NotRegisteredError as error:
            return not_run(f"no gradient is registered: {error}")
    if skipped == compared:
        return not_run(
            "the results are already wrong, and gradients depend on them"
            if skipped
            else f"the reference cannot be differentiated for any of {refused} inputs"
        )
    if not (context.is_limited and cases.left_out) and (finding := _numeric(context)) is not None:
        return failed(finding, inputs=compared)
    is_low = context.dtype not in ("", "float64")
    note = _LOW_PRECISION.format(dtype=context.dtype) if is_low else ""
    if is_gradient_of_body(context.subject):
        note = "; ".join(filter(None, (_BODY, note)))
    return passed(compared, refused=refused, left_out=cases.left_out, note=note)


def why_no_gradient(context: Context) -> str | None:
    """Return why gradients cannot be judged, or None if they can."""
    subject = context.subject
    if subject.mutated:
        return f"it writes to {', '.join(subject.mutated)}: it has no gradient"
    case = subject.suite.plain(context.dtypes)
    inputs = differentiable_inputs(subject, case)
    if not inputs:
        return "no argument has a gradient"
    try:
        if not differentiable_outputs(subject, case, inputs):
            return "no output has a gradient"
    except Exception as error:
        return f"the reference cannot be differentiated: {first_line(error)}"
    return None


def is_gradient_wrong(context: Context, case: Case) -> bool:
    """Whether the first gradients of a call are wrong already, missing or refused."""
    try:
        request = request_of(context, case)
        return request is None or first_wrong(context, case, request) is not None
    except (RefusedError, NotRegisteredError):
        return True


def _cases(context: Context) -> Iterator[Case]:
    """Yield the cases to differentiate: all kinds, but of the many sizes some; in half precision fewer layouts."""
    is_half = context.dtype in ("float16", "bfloat16")
    groups = _GROUPS_OF_BODY if is_gradient_of_body(context.subject) else _GROUPS
    for index, case in enumerate(context.subject.suite.cases(context.dtypes, *groups)):
        # Long rows are where a sum in half precision shows.
        is_long = any(_LONG in recipe.shape for recipe in case.tensors().values())
        is_one_of_many = (case.group == "sizes" and index % (12 if is_half else 4) != 0 and not is_long) or (
            is_half and case.group == "layouts" and not case.label.startswith("every")
        )
        # Where inputs are near the largest number of the type, the order of a gradient's factors decides what overflows.
        is_huge = context.dtype != "float64" and any(r.values == "huge" for r in case.tensors().values())
        if case.elements <= MOST_ELEMENTS and not is_one_of_many and not is_huge:
            yield case


def request_of(context: Context, case: Case) -> GradientRequest | None:
    """Return all gradients of a case, or None if there are none; raises RefusedError as the reference does."""
    inputs = differentiable_inputs(context.subject, case)
    try:
        outputs = differentiable_outputs(context.subject, case, inputs) if inputs else ()
    except Exception as error:
        raise RefusedError(f"the reference cannot be differentiated: {first_line(error)}") from error
    return GradientRequest(inputs, outputs, dtype=context.dtype or "float32") if outputs else None


def _requests(context: Context, case: Case) -> Iterator[GradientRequest]:
    """Yield the gradients to take of a case: all; of a plain one also each alone, and for gradients in other layouts."""
    request = request_of(context, case)
    if request is None:
        return
    yield request
    if case.group == "layouts":
        yield replace(request, layout="transposed")
    if all(recipe.values == "big" for recipe in case.tensors().values()):
        # Everything of one sign: a sum that is kept in half precision stops growing.
        yield replace(request, layout="summed")
    if case.group != "plain":
        return
    for layout in ("summed", "transposed", "every second"):
        yield replace(request, layout=layout)
    if len(request.inputs) > 1:
        yield from (replace(request, inputs=(name,)) for name in request.inputs)
    if len(request.outputs) > 1:
        yield from (replace(request, outputs=(index,)) for index in request.outputs)


def first_wrong(context: Context, case: Case, request: GradientRequest) -> Wrong | None:
    """Return what is wrong with the gradients; raises RefusedError if the reference has none to compare with."""
    subject = context.subject
    values = case.build(context.device)
    with on_threads(1):
        expected = expected_gradients(context, case, request, values)
    context.tell(case)
    with no_gradient_registered() as is_unregistered:
        try:
            found = gradients(subject, subject.kernel, values, request)
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
    leaves = leaves_of(values, request.inputs)
    results = without_overflow(case, materialized(found, leaves), expected)
    wrong = compare(results, expected)
    if wrong is not None and wrong.kind == "value":
        wrong = compare(results, eased(context, case, request, expected))
    if wrong is None:
        return None
    name = request.inputs[wrong.output]
    if found[wrong.output] is None:
        return Wrong(
            f"{name} gets no gradient{_how(request)}; the reference gives it {wrong.expected:.6g}", kind="lost"
        )
    text = str(wrong).replace(f"output {wrong.output}", f"the gradient of {name}", 1)
    return Wrong(f"{text}{_how(request)}", _hint(request), wrong.kind)


def _numeric(context: Context) -> Finding | None:
    """Compare with finite differences, in float64; what the reference fails too is not a defect."""
    if context.dtype != "float64":
        return None
    subject = context.subject
    case = subject.suite.plain(context.dtypes)
    request = request_of(context, case)
    if request is None or any(case.tensors()[name].dtype != "float64" for name in request.inputs):
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
        return Finding(named(shown, what.message, sizes_of(shown, context)), shown, what.hint, first=first)

    context.tell(Found(failed(finding(case, wrong), inputs=compared)))
    small = smallest(context, case, fails)
    return failed(finding(small, first_wrong(context, small, request) or wrong), inputs=compared)


def wrong_gradient(context: Context, case: Case) -> str:
    """Return what is wrong with the gradients of one call, named by what is particular about it, or ""."""
    try:
        for request in _requests(context, case):
            if (wrong := first_wrong(context, case, request)) is not None:
                return named(case, wrong.message, sizes_of(case, context))
        numeric = _numeric(context) if case == context.subject.suite.plain(context.dtypes) else None
    except (RefusedError, NotRegisteredError):
        return ""
    return "" if numeric is None else numeric.message


def _how(request: GradientRequest) -> str:
    if request.layout == "summed":
        return ", for the gradient that .sum() gives, expanded with strides of 0"
    if request.layout != "contiguous":
        return f", for gradients of the outputs that are {request.layout}"
    return ""


def _hint(request: GradientRequest) -> str:
    if request.layout == "contiguous":
        return ""
    return "Gradients arrive with any strides: index through them, or make them contiguous in the backward."
