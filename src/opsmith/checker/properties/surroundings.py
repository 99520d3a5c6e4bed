"""Calls an operator in modes of PyTorch's that a caller may have chosen: results have to be the same in all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opsmith.checker.calls import accepted, quiet, seed_generators
from opsmith.checker.outcome import Finding
from opsmith.checker.properties.agreement import RefusedError, judged, refusals
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.wrong_values import describe
from opsmith.subject.case import Case
from opsmith.subject.derivatives import differentiable_inputs, with_leaves
from opsmith.subject.oracle import Expected, expect

__all__ = ["depends_on_modes"]

_HINT = (
    "The caller's modes are not an argument: give factory functions a dtype, and compute the same with and without "
    "autograd."
)


def depends_on_modes(context: Context) -> Finding | None:
    """Return a finding if a plain call is wrong in a mode, and right without."""
    case = next(accepted(context, "plain"), None)
    if case is None:
        return None
    values = case.build(context.device)
    with quiet():
        try:
            with refusals():
                expected = expect(context.subject, case, values)
        except RefusedError:
            return None
        context.tell(case)
        try:
            types = [result.dtype for result in _plainly(context, case)]
        except Exception:
            return None
        for words, call in (("", _plainly), *_CALLS.items()):
            context.tell(case)
            wrong = _wrong(context, case, call, expected, types)
            if wrong and not words:
                return None  # wrong anyway
            if wrong:
                return Finding(f"{case.label}: {words}, {wrong}, and is right otherwise", case, _HINT)
    return None


_Call = Callable[[Context, Case], list[torch.Tensor]]


def _wrong(context: Context, case: Case, call: _Call, expected: Expected, types: list[torch.dtype]) -> str:
    seed_generators(context.subject.seed)
    try:
        found = call(context, case)
    except Exception as error:
        return f"it raises {type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
    for index, (result, dtype) in enumerate(zip(found, types, strict=False)):
        if result.dtype is not dtype:
            return f"output {index} is of {result.dtype} in place of {dtype}"
    try:
        wrong = judged([result.detach() for result in found], expected)
    except RefusedError:
        return ""
    return "" if wrong is None else describe(context, wrong)


def _plainly(context: Context, case: Case) -> list[torch.Tensor]:
    return context.subject.kernel_results(case.build(context.device))


def _in_inference_mode(context: Context, case: Case) -> list[torch.Tensor]:
    with torch.inference_mode():
        found = context.subject.kernel_results(case.build(context.device))
        return [result.clone() for result in found]


def _with_other_default(context: Context, case: Case) -> list[torch.Tensor]:
    values = case.build(context.device)
    with _default_dtype(torch.float64):
        return context.subject.kernel_results(values)


def _with_gradients(context: Context, case: Case) -> list[torch.Tensor]:
    subject = context.subject
    values: dict[str, Any] = case.build(context.device)
    if not subject.mutated:
        values, _ = with_leaves(values, differentiable_inputs(subject, case))
    with torch.enable_grad():
        return subject.results(subject.kernel, values)


_CALLS: dict[str, _Call] = {
    "in torch.inference_mode()": _in_inference_mode,
    "under torch.set_default_dtype(torch.float64)": _with_other_default,
    "with inputs that require a gradient": _with_gradients,
}


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
