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
_ASKED_SIZE, _FIRST_SIZE = 1 << 4, 1 << 9
# A reference that takes longer is asked for the small size alone.
_QUICK_S = 0.02
_LONGER, _SHORTER = tuple(1 << power for power in range(11, 22, 2)), (1 << 7, 1 << 5)
_MOST_ELEMENTS = 1 << 22
# Threads meet within a call of the first; calls of the second are so few that threads meet less often again.
_LONG_S, _TOO_LONG_S, _FAR_TOO_LONG_S = 3e-3, 12e-3, 50e-3
_MOST_NAMES, _MOST_NAMES_IN_OTHER_TYPES = 3, 1


def long_calls(context: Context) -> Iterator[Case]:
    """Yield a call for each of the first sizes, grown or shrunk until it takes some milliseconds on one thread."""
    space = context.subject.suite.space
    if space is None:
        return
    most = _MOST_NAMES if context.thorough or context.is_main_type else _MOST_NAMES_IN_OTHER_TYPES
    for name in (*space.names, *space.groups)[:most]:
        if (case := _long_call(context, name)) is not None:
            yield case


def _long_call(context: Context, name: str) -> Case | None:
    best = _sized(context, name, _FIRST_SIZE)
    if best is None or not _is_taken(context, name, best):
        return None
    seconds = _seconds_of(context, best)
    is_short = seconds < _LONG_S
    for size in _LONGER if is_short else _SHORTER:
        if math.isnan(seconds) or (seconds >= _LONG_S if is_short else seconds <= _TOO_LONG_S):
            break
        case = _sized(context, name, size)
        seconds = math.nan if case is None else _seconds_of(context, case)
        best = best if case is None or math.isnan(seconds) else case
    return best


def _is_taken(context: Context, name: str, case: Case) -> bool:
    """Whether the reference takes a case, or one smaller where it is slow."""
    asked = _sized(context, name, _ASKED_SIZE)
    started = time.perf_counter()
    if asked is None or not accepts(context, asked):
        return False
    return time.perf_counter() - started > _QUICK_S or accepts(context, case)


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

    def timed() -> float:
        started = time.perf_counter()
        kernel_outputs(context.subject, values)
        return time.perf_counter() - started

    with on_threads(1):
        try:
            # The first call may initialize something; what takes far too long takes too long without that, too.
            first = timed()
            return first if first > _FAR_TOO_LONG_S else timed()
        except Exception:
            return math.nan


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
