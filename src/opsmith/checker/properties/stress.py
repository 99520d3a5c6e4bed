"""Makes calls long enough for threads to meet in: inputs that a kernel works on for some milliseconds."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from opsmith.checker.bits import differences
from opsmith.checker.calls import (
    accepts,
    differentiated,
    is_gradient_of_body,
    kernel_outputs,
    seed_generators,
)
from opsmith.checker.process.threads import on_threads
from opsmith.checker.properties.context import Context
from opsmith.subject.case import Case
from opsmith.subject.space import Choice

__all__ = ["are_equal", "copied", "long_calls", "results_of"]

# All sizes but one are this: indices, which are 0 to 3, are right, and often the same.
_OTHERS = 8
_GROWTH = 4
_FIRST_SIZE, _MOST_SIZE = 1 << 9, 1 << 21
_MOST_ELEMENTS = 1 << 22
_LONG_S = 3e-3
_MOST_NAMES = 3


def long_calls(context: Context) -> Iterator[Case]:
    """Yield a call for each of the first sizes, grown until it takes some milliseconds on one thread."""
    space = context.subject.suite.space
    if space is None:
        return
    for name in (*space.names, *space.groups)[:_MOST_NAMES]:
        best = None
        size = _FIRST_SIZE
        while size <= _MOST_SIZE:
            case = _sized(context, name, size)
            # The reference is asked for the smallest alone: it may take far longer than the kernel.
            if case is None or (best is None and not accepts(context, case)):
                break
            seconds = _seconds_of(context, case)
            if math.isnan(seconds):
                break
            best = case
            if seconds >= _LONG_S:
                break
            size *= _GROWTH
        if best is not None:
            yield best


def _sized(context: Context, name: str, size: int) -> Case | None:
    space = context.subject.suite.space
    assert space is not None
    sizes = {other: size if other == name else _OTHERS for other in space.names}
    groups = {other: (size, _OTHERS) if other == name else (_OTHERS,) for other in space.groups}
    choice = Choice(sizes, groups, {}, {}, label=f"{name} = {size}, others {_OTHERS}", group="large")
    if space.elements(choice) > _MOST_ELEMENTS:
        return None
    return space.case(choice, context.dtypes, context.subject.seed)


def _seconds_of(context: Context, case: Case) -> float:
    """Return how long a call takes on one thread; NaN where the kernel refuses it."""
    context.tell(case)
    values = case.build(context.device)
    with on_threads(1):
        try:
            kernel_outputs(context.subject, values)
            started = time.perf_counter()
            kernel_outputs(context.subject, values)
        except Exception:
            return math.nan
    return time.perf_counter() - started


def results_of(context: Context, values: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return a call's results by name, and the gradients where a kernel computes them; raises what the kernel raises."""
    subject = context.subject
    given = copied(values) if subject.mutated else values
    seed_generators(subject.seed)
    found = {f"output {index}": output for index, output in enumerate(kernel_outputs(subject, given))}
    found |= {name: given[name] for name in subject.mutated if isinstance(given[name], Tensor)}
    if is_gradient_of_body(subject):
        return found  # its roundings are those of PyTorch's operators
    with contextlib.suppress(Exception):
        results, leaves = differentiated(subject, given)
        if results:
            # Of a sum: with a gradient for each result, PyTorch imports its symbolic shapes, for half a second.
            total = sum((result.sum() for result in results[1:]), results[0].sum())
            gradients = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
            named = zip(leaves, gradients, strict=True)
            found |= {f"the gradient of {name}": item for name, item in named if item is not None}
    return found


def are_equal(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """Whether results are the same; quickly where they are, and hold no NaN."""
    if one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one):
        return True
    return not differences(one, other)


def copied(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with copies of the tensors."""

    def copy(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.detach().clone(memory_format=torch.preserve_format)
        return [copy(item) for item in value] if isinstance(value, list) else value

    return {name: copy(value) for name, value in values.items()}
