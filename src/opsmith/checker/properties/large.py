"""Checks that indices are computed in 64 bits, with few elements that lie far apart and so need little memory.

A view whose rows are 2^31 elements apart lies in memory of which all but a few pages are never touched. As much memory
lies before it, where an index that wraps around reads other numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from opsmith.checker.memory.available import size_text
from opsmith.checker.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.checker.properties.agreement import agrees
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.far_apart import HINT, NEAR, dimensions, room_for, spread
from opsmith.checker.properties.large_calls import check_large_calls
from opsmith.checker.properties.large_gradients import check_gradients
from opsmith.subject.case import Case
from opsmith.subject.oracle import Disagreement, Expected, compare, expect

__all__ = ["large"]


def large(context: Context) -> Outcome:
    """Elements whose index is past 2^31 are found; with `--large` also calls with as many elements."""
    found = _narrowest(context)
    if found is None:
        return not_run("ordinary calls already fail, or the reference rejects them")
    context, case = found
    strides = _with_gradients(context, case, _check_strides(context, case))
    if strides.state == "failed" or not context.large:
        more = "" if context.large else "--large makes calls with more than 2^31 elements"
        return replace(strides, note="; ".join(filter(None, (strides.note, more))))
    calls = check_large_calls(context)
    if calls.state != "failed" and strides.state == "passed":
        return passed(strides.inputs + calls.inputs, note="; ".join(filter(None, (strides.note, calls.note))))
    return calls


def _with_gradients(context: Context, case: Case, forward: Outcome) -> Outcome:
    """Return the outcome of results and of gradients, which a kernel of their own computes."""
    if forward.state == "failed":
        return forward
    backward = check_gradients(context, case)
    if backward.state == "failed" or (forward.state == "not run" and backward.state == "passed"):
        return backward
    if backward.state == "not run":
        return forward
    return replace(forward, inputs=forward.inputs + backward.inputs, refused=forward.refused + backward.refused)


def _narrowest(context: Context) -> tuple[Context, Case] | None:
    """Return the context with the smallest element types, and a call in them that is right."""
    for dtypes in sorted(context.subject.dtypes, key=_width):
        narrow = replace(context, dtypes=dtypes)
        for case in context.subject.suite.cases(dtypes, "plain"):
            if agrees(narrow, case):
                return narrow, case
    return None


def _width(dtypes: Mapping[str, str]) -> int:
    return sum(getattr(torch, name).itemsize for name in dtypes.values())


def _check_strides(context: Context, case: Case) -> Outcome:
    """Check one tensor after the other with its elements far apart along one dimension."""
    tried, unfit, refused = 0, 0, 0
    excused = ""
    expected = expect(context.subject, case, case.build(context.device)).completed()
    for name, dim in dimensions(case):
        recipe = case.tensors()[name]
        needed, free, stride, before = room_for(recipe.shape, recipe.dtype, dim, context.device)
        if before is None:
            unfit = max(unfit, needed)
            continue
        # The same with rows that are near: a kernel that ignores strides, or refuses them, is another matter.
        if not _is_right_nearby(context, case, name, dim, expected):
            continue
        context.tell(f"{name} with its elements past 2^31 along dimension {dim}")
        try:
            values = spread(case, context.device, name, dim, stride, before)
        except (RuntimeError, MemoryError):
            unfit = max(unfit, needed)
            continue
        try:
            found = context.subject.kernel_results(values)
            wrong = compare(found, expected)
        except (RuntimeError, ValueError):
            refused += 1
            continue
        tried += 1
        if wrong is not None and _is_reference_wrong(context, values, expected):
            excused = (
                f"with {name} so far apart, PyTorch's own operators are wrong on this device, in the reference too"
            )
        elif wrong is not None:
            return failed(Finding(_describe(name, dim, recipe.shape, stride, wrong), hint=HINT), inputs=tried)
    note = f"it rejects {refused} of {refused + tried} calls with strides past 2^31" if refused else ""
    note = "; ".join(filter(None, (note, excused)))
    if tried + refused > 0:
        return passed(tried, refused=refused, note=note)
    if unfit:
        return not_run(f"{size_text(unfit)} of address space are needed, {size_text(free)} are available")
    return not_run("it takes no strided input, so only calls with 2^31 elements would show it")


def _is_reference_wrong(context: Context, values: Mapping[str, Any], expected: Expected) -> bool:
    """Whether the reference goes wrong with the same arguments: cuBLAS has indices of 32 bits for some products."""
    if context.subject.mutated:
        return False  # the arguments are others by now
    try:
        return compare(context.subject.results(context.subject.reference, values), expected) is not None
    except (RuntimeError, ValueError):
        return False


def _is_right_nearby(context: Context, case: Case, name: str, dim: int, expected: Any) -> bool:
    size = math.prod(case.tensors()[name].shape)
    context.tell(f"{name} with its elements slightly apart along dimension {dim}")
    try:
        values = spread(case, context.device, name, dim, 2 * size + NEAR, NEAR)
        return compare(context.subject.kernel_results(values), expected) is None
    except (RuntimeError, ValueError):
        return False


def _describe(name: str, dim: int, shape: tuple[int, ...], stride: int, wrong: Disagreement) -> str:
    return (
        f"{name}, of shape {shape} and with a stride of {stride:,} along dimension {dim}, has elements past index 2^31: "
        f"{wrong}; with a small stride it is right"
    )
