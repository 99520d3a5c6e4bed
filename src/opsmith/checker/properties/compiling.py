"""Checks torch.compile and torch.export: one graph for all sizes, with the results and gradients of eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list

from opsmith.checker.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.checker.properties.agreement import RefusedError, disagreement
from opsmith.checker.properties.case_sizes import MOST_SIZES, cases_of_sizes
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.gradient_cases import why_no_gradient
from opsmith.checker.properties.tracing import NO_OPERATOR, is_fake_wrong
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.derivatives import (
    differentiable_inputs,
    first_line,
    has_autograd_kernel,
    materialized,
    no_gradient_registered,
    with_leaves,
)
from opsmith.subject.subject import Subject
from opsmith.subject.values import fill

__all__ = ["compiled", "exported", "trainable_inputs", "why_body_is_not_traced"]

_ONE_SIZE = "there is only one input size to try"
_FIXED = (
    "The fake kernel or gradient turns a size into a number (int(x.shape[0]), an if on a size): keep sizes symbolic."
)


@dataclass(frozen=True)
class _Call:
    """A call with its results, and the gradients of its inputs where it has some."""

    results: list[Tensor]
    gradients: list[Tensor]


def compiled(context: Context) -> Outcome:
    """torch.compile(fullgraph, dynamic): forward and backward as in eager mode, and one graph for three sizes."""
    subject = context.subject
    if subject.overload is None:
        return not_run(NO_OPERATOR)
    cases = cases_of_sizes(context)
    names = trainable_inputs(context, cases[0])
    try:
        expected = [_call(context, case, subject.call, names) for case in cases]
    except Exception as error:
        return not_run(f"the operator itself raises: {first_line(error)}")
    function = _plain_function(subject)
    torch._dynamo.reset()
    with _any_sizes():
        # "aot_eager" traces as the compiler would, forward and backward, and runs PyTorch's own kernels.
        traced = torch.compile(function, fullgraph=True, dynamic=True, backend="aot_eager")
        for case, wanted in zip(cases, expected, strict=True):
            try:
                found = _call(context, case, traced, names)
            except Exception as error:
                return _judged(context, case, f"torch.compile raises {type(error).__name__}: {_cause(error)}", "")
            if (message := _wrong(found, wanted)) is not None:
                return _judged(context, case, f"under torch.compile {message}", "")
    graphs = len(_debug_get_cache_entry_list(function.__code__))
    if graphs > 1:
        message = f"it is recompiled for other sizes: {graphs} graphs for {len(cases)} sizes"
        return _judged(context, cases[0], message, _FIXED)
    return passed(len(cases), note="" if len(cases) > 1 else _ONE_SIZE)


def exported(context: Context) -> Outcome:
    """torch.export with dynamic shapes: the program gives the operator's results for another size."""
    subject = context.subject
    if subject.overload is None:
        return not_run(NO_OPERATOR)
    first, *others = cases_of_sizes(context)
    # Numbers become constants of the program, so the other size has to be one for the same numbers.
    same = [case for case in others if _numbers(case) == _numbers(first)]
    cases = [first, *same[:1]]
    try:
        expected = [_call(context, case, subject.call, ()) for case in cases]
    except Exception as error:
        return not_run(f"the operator itself raises: {first_line(error)}")
    context.tell(first)
    values = first.build(context.device)
    arguments = tuple(subject.arguments(values))
    module = _Module(subject, subject.keyword_arguments(values))
    try:
        with _any_sizes():
            shapes = (tuple(map(_dynamic, arguments)),)
            program = torch.export.export(module, arguments, dynamic_shapes=shapes).module()
        found = [_call(context, case, lambda *given, **_: program(*given), ()) for case in cases]
    except Exception as error:
        message = f"torch.export raises {type(error).__name__}: {_cause(error)}"
        return _judged(context, first, message, _FIXED, is_export=True)
    for case, mine, wanted in zip(cases, found, expected, strict=True):
        if (message_of := _wrong(mine, wanted)) is not None:
            return _judged(context, case, f"the exported program: {message_of}", "", is_export=True)
    return passed(len(cases), note="" if len(cases) > 1 else _ONE_SIZE)


class _Module(torch.nn.Module):
    """A call of the operator, as torch.export wants it; what goes by name are constants of the program."""

    def __init__(self, subject: Subject, keywords: dict[str, Any]) -> None:
        super().__init__()
        self._operator = subject.call
        self._keywords = keywords

    def forward(self, *arguments: Any) -> Any:
        return self._operator(*arguments, **self._keywords)


@contextmanager
def _any_sizes() -> Iterator[None]:
    """Have PyTorch take sizes that are equal in the first call by chance for different ones, and results of any size."""
    with (
        torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True),
        torch.fx.experimental._config.patch(use_duck_shape=False),  # type: ignore[attr-defined]
    ):
        yield


def _plain_function(subject: Subject) -> FunctionType:
    operator = subject.call

    def call(*arguments: Any, **keywords: Any) -> Any:
        return operator(*arguments, **keywords)

    assert isinstance(call, FunctionType)
    return call


def _numbers(case: Case) -> Any:
    """Return the arguments that are not tensors."""
    return {
        name: value
        for name, value in case.arguments.items()
        if not isinstance(value, TensorRecipe) and f"{name}[0]" not in case.tensors()
    }


def trainable_inputs(context: Context, case: Case) -> tuple[str, ...]:
    """Return the inputs to differentiate by, none where the operator has no gradient in eager mode."""
    if why_no_gradient(context) is not None or not has_autograd_kernel(context.subject, context.device):
        return ()
    names = differentiable_inputs(context.subject, case)
    with no_gradient_registered() as is_unregistered:
        try:
            _call(context, case, context.subject.call, names)
        except Exception:
            return ()
        return () if is_unregistered() else names


def _call(context: Context, case: Case, function: Callable[..., Any], names: tuple[str, ...]) -> _Call:
    context.tell(case)
    values, leaves = with_leaves(case.build(context.device), names)
    results = context.subject.results(function, values)
    chosen = [(index, result) for index, result in enumerate(results) if result.requires_grad]
    if not names or not chosen:
        return _Call([result.detach() for result in results], [])
    weights = [
        fill(tuple(result.shape), result.dtype, "normal", 8009 + index).to(result.device) for index, result in chosen
    ]
    found = torch.autograd.grad([result for _, result in chosen], leaves, weights, allow_unused=True)
    return _Call([result.detach() for result in results], materialized(found, leaves))


def _wrong(found: _Call, expected: _Call) -> str | None:
    for what, mine, theirs in (
        ("output", found.results, expected.results),
        ("the gradient of input", found.gradients, expected.gradients),
    ):
        if len(mine) != len(theirs):
            return f"{len(mine)} results of the kind {what!r}, in eager mode {len(theirs)}"
        for index, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            if one.shape != other.shape or one.dtype != other.dtype:
                return f"{what} {index} is {tuple(one.shape)} {one.dtype}, in eager mode {tuple(other.shape)} {other.dtype}"
            if not torch.allclose(one, other, rtol=_tolerance(other), atol=_tolerance(other), equal_nan=True):
                return (
                    f"{what} {index} differs from eager mode in {int((one != other).sum())} of {other.numel()} elements"
                )
    return None


def _tolerance(tensor: Tensor) -> float:
    return float(8 * torch.finfo(tensor.dtype).eps ** 0.75) if tensor.dtype.is_floating_point else 0.0


def _dynamic(value: Any) -> Any:
    """Return what torch.export wants to be told of an argument: every size of a tensor may change."""
    if isinstance(value, Tensor):
        return dict.fromkeys(range(value.dim()), torch.export.Dim.AUTO)
    return [_dynamic(item) for item in value] if isinstance(value, list) else None


def _is_of_the_body(context: Context) -> bool:
    """Whether it is the body, as the operator's gradient, that is traced anew for each size: a loop over one, say.

    The operator itself has one graph then, and a backward kernel would have one too.
    """
    subject = context.subject
    if subject.operator is None or subject.operator.gradient is not None:
        return False
    try:
        return _count_graphs(context, cases_of_sizes(context)) == 1
    except Exception:
        return False


def _count_graphs(context: Context, cases: list[Case]) -> int:
    """Return how many graphs the operator is compiled to without gradients."""
    graphs = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    def call(*arguments: Any, **keywords: Any) -> Any:
        return context.subject.call(*arguments, **keywords)

    torch._dynamo.reset()
    with _any_sizes():
        traced = torch.compile(call, fullgraph=True, dynamic=True, backend=backend)
        for case in cases:
            context.subject.results(traced, case.build(context.device))
    return len(graphs)


def why_body_is_not_traced(context: Context) -> str:
    """Return why PyTorch does not trace the body by itself, with its gradient, or "" if it does.

    An operator is one node for a tracer, but its gradient may be the body's, and a body that branches on data cannot be
    traced by anyone.
    """
    subject = context.subject
    cases = cases_of_sizes(context)
    names = differentiable_inputs(subject, cases[0]) if why_no_gradient(context) is None else ()

    def body(*arguments: Any, **keywords: Any) -> Any:
        return subject.reference(*arguments, **keywords)

    torch._dynamo.reset()
    with _any_sizes():
        traced = torch.compile(body, fullgraph=True, dynamic=True, backend="aot_eager")
        try:
            for case in cases:
                _call(replace(context, tell=_tell_nobody), case, traced, names)
        except Exception as error:
            return f"torch.compile does not trace the body by itself ({type(error).__name__}: {_cause(error)})"
    return ""


def _tell_nobody(case: Any) -> None:
    """Report nothing: it is the body that is called, and not the operator."""


def _judged(context: Context, case: Case, message: str, hint: str, *, is_export: bool = False) -> Outcome:
    """Return a finding, unless a more basic defect explains it, or the body cannot be traced either."""
    if hint == _FIXED and not is_export and _is_of_the_body(context):
        return passed(
            MOST_SIZES, note="one graph for all sizes; the gradient comes from the body, which has one for each size"
        )
    if is_fake_wrong(context):
        return not_run("the fake kernel is missing or wrong, and tracing needs it")
    if is_export and compiled(context).state == "failed":
        return not_run("torch.compile, which traces the operator in the same way, already fails")
    if why := _why_not_judged(context, case):
        return not_run(why)
    return failed(Finding(message, case, hint))


def _why_not_judged(context: Context, case: Case) -> str:
    """Return what else is wrong, in the kernel or in the body, or "" for nothing."""
    with suppress(RefusedError):
        if disagreement(context, case) is not None:
            return "the kernel's own results are already wrong"
    one, other = (_call(context, case, context.subject.call, ()) for _ in range(2))
    if _wrong(one, other) is not None:
        return "the kernel's own results differ from call to call"
    return why_body_is_not_traced(context)


def _cause(error: BaseException) -> str:
    """Return what went wrong below what dynamo wraps around it."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # "backend='aot_eager' raised:", and then what it did.
    return lines[1][:300] if len(lines) > 1 and lines[0].endswith("raised:") else first_line(error)
