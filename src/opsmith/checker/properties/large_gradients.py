"""Checks that a backward computes indices in 64 bits too: into what the forward got, and into gradients of the outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opsmith.checker.calls import is_gradient_of_body
from opsmith.checker.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.checker.properties.agreement import RefusedError
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.far_apart import (
    HINT,
    NEAR,
    dimensions,
    long_dimensions,
    room_for,
    spread,
    spread_tensor,
)
from opsmith.checker.properties.gradient_cases import request_of
from opsmith.checker.properties.gradient_oracle import expected_gradients
from opsmith.subject.case import Case
from opsmith.subject.derivatives import (
    GradientRequest,
    NoGradientError,
    leaves_of,
    materialized,
    outputs_and_gradients,
    with_leaves,
)
from opsmith.subject.oracle import Disagreement, Expected, compare

__all__ = ["check_gradients"]

_FAILS = (NoGradientError, RuntimeError, ValueError, MemoryError, NotImplementedError)


@dataclass(frozen=True)
class _Place:
    """A tensor and the dimension along which its elements lie far apart; an output's index stands for its gradient."""

    name: str
    output: int | None
    shape: tuple[int, ...]
    dtype: str
    dim: int


def check_gradients(context: Context, case: Case) -> Outcome:
    """Check the gradients of a call with one tensor after the other far apart along one dimension."""
    subject = context.subject
    if subject.mutated or is_gradient_of_body(subject):
        return not_run("no kernel computes gradients")
    try:
        request = request_of(context, case)
        if request is None:
            return not_run("there is no gradient")
        expected = expected_gradients(context, case, request, case.build(context.device)).completed()
        places = list(_places(context, case, request))
    except (RefusedError, *_FAILS) as error:
        return not_run(f"there is no gradient to compare with: {error}")
    tried = refused = 0
    for place in places:
        _, _, stride, before = room_for(place.shape, place.dtype, place.dim, context.device)
        near = 2 * math.prod(place.shape) + NEAR
        if before is None or _wrong(context, case, request, expected, place, near, NEAR) is not None:
            continue
        wrong = _wrong(context, case, request, expected, place, stride, before)
        if isinstance(wrong, Exception):
            refused += 1
            continue
        tried += 1
        is_of_kernel = wrong is not None and not _is_reference_wrong(
            context, case, request, expected, place, stride, before
        )
        if wrong is not None and is_of_kernel:
            return failed(Finding(_describe(request, place, stride, wrong), hint=HINT), inputs=tried)
    return passed(tried, refused=refused) if tried + refused else not_run("it takes no strided gradient")


def _places(context: Context, case: Case, request: GradientRequest) -> Iterator[_Place]:
    tensors = case.tensors()
    for name, dim in dimensions(case):
        yield _Place(name, None, tensors[name].shape, tensors[name].dtype, dim)
    given, _ = with_leaves(case.build(context.device), request.inputs)
    results = context.subject.kernel_results(given)
    for index in request.outputs:
        shape, dtype = tuple(results[index].shape), str(results[index].dtype).removeprefix("torch.")
        for dim in long_dimensions(shape):
            yield _Place(f"the gradient of output {index}", index, shape, dtype, dim)


def _wrong(
    context: Context, case: Case, request: GradientRequest, expected: Expected, place: _Place, stride: int, before: int
) -> Disagreement | Exception | None:
    """Return how the kernel's gradients differ with a tensor's elements that far apart, or what it raises."""
    context.tell(f"the gradients, with {place.name} apart along dimension {place.dim}")
    try:
        found = _gradients(context, context.subject.kernel, case, request, place, stride, before)
    except _FAILS as error:
        return error
    return compare(found, expected)


def _is_reference_wrong(
    context: Context, case: Case, request: GradientRequest, expected: Expected, place: _Place, stride: int, before: int
) -> bool:
    try:
        found = _gradients(context, context.subject.reference, case, request, place, stride, before)
    except _FAILS:
        return False
    return compare(found, expected) is not None


def _gradients(
    context: Context,
    function: Callable[..., Any],
    case: Case,
    request: GradientRequest,
    place: _Place,
    stride: int,
    before: int,
) -> list[Tensor]:
    values: Mapping[str, Any]
    if place.output is None:
        values = spread(case, context.device, place.name, place.dim, stride, before)
    else:
        values = case.build(context.device)
    given, leaves = with_leaves(values, request.inputs)
    outputs, weights = outputs_and_gradients(context.subject, function, given, request)
    if place.output is not None:
        at = request.outputs.index(place.output)
        weights[at] = spread_tensor(weights[at], place.dim, stride, before)
    found = torch.autograd.grad(outputs, leaves, weights, allow_unused=True)
    return materialized(found, leaves_of(given, request.inputs))


def _describe(request: GradientRequest, place: _Place, stride: int, wrong: Disagreement) -> str:
    text = str(wrong).replace(f"output {wrong.output}", f"the gradient of {request.inputs[wrong.output]}", 1)
    return (
        f"{place.name}, of shape {place.shape} and with a stride of {stride:,} along dimension {place.dim}, has elements "
        f"past index 2^31: {text}; with a small stride it is right"
    )
