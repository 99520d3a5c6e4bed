"""Checks what autograd promises of every backward: it may run twice, and is of the call that it belongs to.

PyTorch's own operators raise if what they have saved was changed in place meanwhile; a gradient of the new numbers would
be wrong without a word. A gradient that arrives as NaN leaves as NaN: that is how loss scaling notices an overflow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from opsmith.checker.calls import is_gradient_of_body, other_numbers, quiet, seed_generators
from opsmith.checker.outcome import Finding
from opsmith.checker.properties.agreement import RefusedError
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.gradient_cases import differentiable_case, request_of
from opsmith.subject.case import Case
from opsmith.subject.derivatives import GradientRequest, outputs_and_gradients, with_leaves

__all__ = ["broken_promise", "mixed_up"]

_SAVE_HINT = "Keep tensors with ctx.save_for_backward, which notices that they have changed, and not as attributes."
_KEPT_HINT = "Keep what the backward needs with the call: static variables hold what the latest one has left there."
_Found = tuple[Tensor | None, ...]


class _Call:
    """A call of an operator with gradients, of which the backward is still to come."""

    def __init__(self, context: Context, case: Case, request: GradientRequest, function: Any = None) -> None:
        self._request = request
        seed_generators(context.subject.seed)
        given, self.leaves = with_leaves(case.build(context.device), request.inputs)
        function = function if function is not None else context.subject.kernel
        self.outputs, self._weights = outputs_and_gradients(context.subject, function, given, request)

    def gradients(self, weight: float | None = None) -> _Found:
        """Return the gradients of the inputs, for gradients of the outputs that are one number, or ordinary ones."""
        weights = self._weights if weight is None else [torch.full_like(output, weight) for output in self.outputs]
        # As a sum, because for gradients that are given PyTorch imports SymPy.
        products = [(output * one).sum() for output, one in zip(self.outputs, weights, strict=True)]
        total = sum(products[1:], products[0])
        return torch.autograd.grad(total, self.leaves, retain_graph=True, allow_unused=True)


def broken_promise(context: Context) -> Finding | None:
    """Return a finding about a plain call whose gradients are right; None where the body's are taken."""
    found = _case_of(context)
    if found is None:
        return None
    case, request = found
    context.tell(case)
    with quiet():
        try:
            call = _Call(context, case, request)
            first = call.gradients()
            again = call.gradients()
        except Exception:
            return None  # another property says so
        if (name := _differing(request, first, again)) is not None:
            message = f"a second backward through the same graph (retain_graph=True) gives another gradient of {name}"
            return Finding(f"{case.label}: {message}", case, "A backward must not change what was saved, or count.")
        for words in _changed_meanwhile(context, case, request, first):
            return Finding(f"{case.label}: {words}", case, _SAVE_HINT)
        if _loses_nan(context, case, request):
            message = "where the gradients of all outputs are NaN, no gradient of an input is"
            return Finding(f"{case.label}: {message}", case, "Loss scaling finds an overflow by the NaN that arrives.")
    return None


def mixed_up(context: Context) -> Finding | None:
    """Return a finding if the gradient of a call is another one where a second call comes before the backward."""
    found = _case_of(context)
    if found is None:
        return None
    case, request = found
    context.tell(case)
    with quiet():
        try:
            expected = _Call(context, case, request).gradients()
            call = _Call(context, case, request)
            _Call(context, other_numbers(case), request)
            name = _differing(request, expected, call.gradients())
        except Exception:
            return None
    if name is None:
        return None
    message = f"{case.label}: after another call, the gradient of {name} of the first one is not what it was before"
    return Finding(message, case, _KEPT_HINT)


def _case_of(context: Context) -> tuple[Case, GradientRequest] | None:
    if is_gradient_of_body(context.subject) or context.subject.mutated:
        return None
    case, _ = differentiable_case(context)
    try:
        request = request_of(context, case) if case is not None else None
    except RefusedError:
        return None
    return None if case is None or request is None else (case, request)


def _changed_meanwhile(context: Context, case: Case, request: GradientRequest, expected: _Found) -> Iterator[str]:
    """Yield in words where a tensor is changed between a call and its backward, and the gradient is silently another."""
    names = [*request.inputs, *(f"output {index}" for index in request.outputs)]
    for place, what in enumerate(names):
        try:
            call = _Call(context, case, request)
            tensor = [*call.leaves, *call.outputs][place].detach()
            tensor.copy_(tensor.flip(0) * 2 + 1 if tensor.dim() else tensor * 2 + 1)
            found = call.gradients()
        except Exception:
            continue  # autograd has noticed
        if (name := _differing(request, expected, found)) is not None:
            yield f"where {what} changes in place before the backward, the gradient of {name} is silently another"


def _loses_nan(context: Context, case: Case, request: GradientRequest) -> bool:
    try:
        expected = _Call(context, case, request, context.subject.reference).gradients(torch.nan)
        found = _Call(context, case, request).gradients(torch.nan)
    except Exception:
        return False
    return _has_nan(expected) and not _has_nan(found)


def _has_nan(found: Sequence[Tensor | None]) -> bool:
    return any(one is not None and bool(one.isnan().any()) for one in found)


def _differing(request: GradientRequest, one: _Found, other: _Found) -> str | None:
    """Return the input whose gradients are not the same, but for roundings."""
    for name, first, second in zip(request.inputs, one, other, strict=True):
        if (first is None) != (second is None):
            return name
        if first is not None and second is not None and not _is_near(first, second):
            return name
    return None


def _is_near(one: Tensor, other: Tensor) -> bool:
    tolerance = float(torch.finfo(one.dtype).eps ** 0.5)
    return torch.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)
