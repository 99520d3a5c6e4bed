"""Runs torch.library.opcheck, and reports what no other property has a name for."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from typing import Any

import torch

from opsmith.checker.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.checker.properties.agreement import RefusedError, disagreement, is_repeatable
from opsmith.checker.properties.compiling import compiled, trainable_inputs, why_body_is_not_traced
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.gradient_cases import why_no_gradient
from opsmith.checker.properties.tracing import NO_OPERATOR, is_fake_wrong
from opsmith.subject.case import Case
from opsmith.subject.derivatives import differentiable_inputs, first_line, is_generated, is_refusal, with_leaves

__all__ = ["opcheck"]

_GRADIENT_TEST = "test_autograd_registration"
_TRACING_TEST = "test_aot_dispatch_dynamic"
_TESTS = ("test_schema", _GRADIENT_TEST, "test_faketensor", _TRACING_TEST)
_HINTS = {
    _GRADIENT_TEST: (
        "Register the gradient with torch.library.register_autograd, or a kernel at the Autograd key: PyTorch "
        "bypasses one at the CPU or CUDA key when it traces."
    )
}


def opcheck(context: Context) -> Outcome:
    """opcheck's own four tests; what they find and another property names is left to that one."""
    subject = context.subject
    if subject.overload is None:
        return not_run(NO_OPERATOR)
    compared, left = 0, ""
    for case in itertools.islice(subject.suite.cases(context.dtypes, "plain"), 1 if subject.suite.space else 3):
        context.tell(case)
        try:
            results = _opcheck(context, case)
        except Exception as error:
            return not_run(f"the operator itself raises: {first_line(error)}")
        compared += 1
        for test, found in results.items():
            if not isinstance(found, BaseException):
                continue
            if (other := _named_elsewhere(context, case, test, found)) is None:
                message = f"{case.label}: torch.library.opcheck, {test}: {first_line(found)}"
                return failed(Finding(message, case, _HINTS.get(test, "")), inputs=compared)
            left = f"see {other} for what opcheck's {test} finds"
    return passed(compared, note=left)


def _opcheck(context: Context, case: Case) -> dict[str, Any]:
    """Return what each test says: "SUCCESS", or an exception. Inputs require gradients where the operator has some."""
    subject = context.subject
    names = trainable_inputs(context, case)
    # An operator that raises by itself says nothing of its registration.
    subject.kernel_results(with_leaves(case.build(context.device), names)[0])
    if names or why_no_gradient(context) is not None:
        return _run_tests(context, case, names, _TESTS)
    # Without a gradient all but the test of just that is done for inputs that require none.
    found = _run_tests(context, case, (), tuple(test for test in _TESTS if test != _GRADIENT_TEST))
    names = differentiable_inputs(subject, case)
    try:
        if is_generated(subject, case, names, context.device):
            return found  # PyTorch's own kernel for what has no gradient.
    except Exception:
        return found
    return found | _run_tests(context, case, names, (_GRADIENT_TEST,))


def _run_tests(context: Context, case: Case, names: tuple[str, ...], tests: tuple[str, ...]) -> dict[str, Any]:
    subject = context.subject
    values, _ = with_leaves(case.build(context.device), names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = tuple(subject.arguments(values))
        keywords = subject.keyword_arguments(values)
        found = torch.library.opcheck(subject.overload, arguments, keywords, test_utils=tests, raise_exception=False)
        return dict(found)


def _named_elsewhere(context: Context, case: Case, test: str, error: BaseException) -> str | None:
    """Return which property is for what opcheck has found, or None if it is this one."""
    text = str(error)
    if test == "test_schema" and ("mutat" in text or "alias" in text):
        return "`inputs unchanged`" if "mutat" in text else "`aliasing`"
    if test in ("test_faketensor", _TRACING_TEST) and is_fake_wrong(context):
        return "`fake`"
    if test == _TRACING_TEST and (named := _named_when_traced(context, error)):
        return named
    with contextlib.suppress(RefusedError):
        if disagreement(context, case) is not None:
            return "`value`"
    return None if is_repeatable(context, case) else "`determinism`"


def _named_when_traced(context: Context, error: BaseException) -> str:
    if is_refusal(error) and _has_saved_outputs(context):
        return "`second gradient`"
    if compiled(context).state == "failed":
        return "`compile`"
    return "the body" if why_body_is_not_traced(context) else ""


def _has_saved_outputs(context: Context) -> bool:
    """Tell whether opcheck, which differentiates every output, needs what only second gradients need."""
    operator = context.subject.operator
    return operator is not None and any(output.saved for output in operator.definition.signature.outputs)
