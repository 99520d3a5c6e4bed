"""Chooses the calls to differentiate, and which gradients of each: through which outputs, lying how in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice

from opsmith.checker.calls import is_gradient_of_body
from opsmith.checker.main_types import for_types
from opsmith.checker.properties.agreement import RefusedError
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.unproven import Refusal
from opsmith.subject.case import Case
from opsmith.subject.choices_of_layouts import LONG_ROWS
from opsmith.subject.choices_of_sizes import EDGES, LARGE, is_tail
from opsmith.subject.derivatives import (
    GradientRequest,
    differentiable_inputs,
    differentiable_outputs,
    first_line,
)
from opsmith.subject.layouts import COLUMN_FOR_ALL, SLICE_FOR_ALL

__all__ = [
    "MOST_ELEMENTS",
    "differentiable_case",
    "gradient_cases",
    "request_of",
    "requests_of",
    "why_no_gradient",
]

MOST_ELEMENTS = 5000
_LONG = 1025
# A size of 1025, and a group of sizes.
_LONG_SIZES = (str(_LONG), "(1023,)")
# Of the many sizes, in single and double precision.
_ONE_OF = 4
_GROUPS = ("plain", "scalars", "equal", "values", "layouts", "sizes", "empty", "large")
# Of large calls, those with tiles in two dimensions in single and double precision, and those with one size that does not
# fit into 16 bits in one type: the index is the same in each.
_MOST_IN_LARGE = 1 << 18
# Other values and arguments are tried on some dozens in each dimension, however many there are.
_MOST_IN_DOZENS = 1 << 15
_IN_DOZENS = frozenset({"scalars", "equal", "values"})
# How many calls of a kind are tried to find one that the reference takes.
_MOST_REFUSED = 40
# Where PyTorch takes the gradient through the body, no kernel sees its sizes and values.
_GROUPS_OF_BODY = ("plain", "scalars", "equal", "layouts", "empty")
# How gradients arrive: of a transposition, of one of a concatenation, of a part of a transposed result.
_LAYOUTS = ("transposed", "with a larger leading dimension", "cut out of a transposed one")


def why_no_gradient(context: Context) -> str | None:
    """Return why gradients cannot be judged, or None if they can."""
    subject = context.subject
    if subject.mutated:
        return f"it writes to {', '.join(subject.mutated)}: it has no gradient"
    case, refusals = differentiable_case(context)
    if case is None:
        words = first_line(refusals[0].error) if refusals else ""
        return f"the reference cannot be differentiated: {words}" if refusals else "no argument has a gradient"
    if not differentiable_outputs(subject, case, differentiable_inputs(subject, case)):
        return "no output has a gradient"
    return None


def differentiable_case(context: Context) -> tuple[Case | None, list[Refusal]]:
    """Return the plainest call with a gradient that the reference takes, or None and those that it refuses."""
    subject = context.subject
    refusals: list[Refusal] = []
    if subject.mutated:
        return None, refusals
    groups = ("plain", "scalars", "sizes")
    cases = chain(*(islice(subject.suite.cases(context.dtypes, group), _MOST_REFUSED) for group in groups))
    for case in cases:
        if not (inputs := differentiable_inputs(subject, case)):
            continue
        try:
            differentiable_outputs(subject, case, inputs)
        except Exception as error:
            refusals.append(Refusal(case, error))
            continue
        return case, []
    return None, refusals


def gradient_cases(context: Context) -> Iterator[Case]:
    """Yield the cases to differentiate: all kinds, but of the many sizes some; in half precision fewer layouts."""
    is_half = context.dtype in ("float16", "bfloat16")
    groups = _GROUPS_OF_BODY if is_gradient_of_body(context.subject) else _GROUPS
    for index, case in enumerate(for_types(context, context.subject.suite.cases(context.dtypes, *groups))):
        # Long rows are where a sum in half precision shows; every rest after whole vectors is tried in one type.
        is_kept = any(_LONG in recipe.shape for recipe in case.tensors().values())
        is_kept = is_kept or case.has_options or (context.is_main_type and is_tail(case.label))
        is_one_of_many = (case.group == "sizes" and index % (12 if is_half else _ONE_OF) != 0 and not is_kept) or (
            is_half and case.group == "layouts" and not case.label.startswith("every")
        )
        # Where inputs are near the largest number of the type, the order of a gradient's factors decides what overflows.
        is_huge = context.dtype != "float64" and any(r.values == "huge" for r in case.tensors().values())
        # With other options, long rows are enough: the reference takes longest for gradients of tiles.
        is_in_tiles = " x " in case.label and not is_half and not case.has_options
        is_of_one = case.label.endswith(f" = {LARGE}") and context.is_main_type
        is_large = case.group == "large" and (is_in_tiles or is_of_one)
        most = _MOST_IN_LARGE if is_large else _MOST_IN_DOZENS if case.group in _IN_DOZENS else MOST_ELEMENTS
        # A row of equal numbers: which of them gets the gradient of a sort or a maximum is chance.
        is_tied = any(recipe.layout in (COLUMN_FOR_ALL, SLICE_FOR_ALL) for recipe in case.tensors().values())
        if case.elements <= most and not is_one_of_many and not is_huge and not is_tied:
            yield case


def request_of(context: Context, case: Case) -> GradientRequest | None:
    """Return all gradients of a case, or None if there are none; raises RefusedError as the reference does."""
    inputs = differentiable_inputs(context.subject, case)
    try:
        outputs = differentiable_outputs(context.subject, case, inputs) if inputs else ()
    except Exception as error:
        raise RefusedError(f"the reference cannot be differentiated: {first_line(error)}") from error
    return GradientRequest(inputs, outputs, dtype=context.dtype or "float32") if outputs else None


def requests_of(context: Context, case: Case) -> Iterator[GradientRequest]:
    """Yield the gradients to take of a case: all; of a plain one also each alone, and for gradients in other layouts.

    Of cases of sizes also all but one, in turns: with a frozen weight, a backward takes another path.
    """
    request = request_of(context, case)
    if request is None:
        return
    yield request
    if case.label == f"{LONG_ROWS}, every tensor contiguous":
        for layout in ("summed", "expanded", *_LAYOUTS):
            yield replace(request, layout=layout)
    elif case.group == "layouts":
        for layout in ("transposed", "summed") if case.has_options else ("transposed",):
            yield replace(request, layout=layout)
    if all(recipe.values == "big" for recipe in case.tensors().values()):
        # Everything of one sign: a sum that is kept in half precision stops growing.
        yield replace(request, layout="summed")
    yield from (replace(request, inputs=inputs) for inputs in _all_but_one(context, case, request.inputs))
    if case.group != "plain":
        return
    if not (context.thorough or context.is_main_type):
        # Which gradients are asked for and how they lie is the same code in each type; how long a sum grows is not.
        yield replace(request, layout="summed")
        return
    for layout in ("summed", "every second", "offset", *(_LAYOUTS if case.label == "plain" else _LAYOUTS[:1])):
        yield replace(request, layout=layout)
    if len(request.inputs) > 1:
        yield from (replace(request, inputs=(name,)) for name in request.inputs)
    if len(request.inputs) > 2:
        yield from (replace(request, inputs=inputs) for inputs in _without_each(request.inputs))
    if len(request.outputs) > 1:
        yield from (replace(request, outputs=(index,)) for index in request.outputs)


def _without_each(inputs: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [tuple(name for name in inputs if name != left_out) for left_out in inputs]


def _all_but_one(context: Context, case: Case, inputs: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return inputs that require a gradient in a case of sizes: another one left out for each size, and each for 1025."""
    size = case.label.rpartition(" = ")[2]
    if case.group != "sizes" or len(inputs) < 2 or is_tail(case.label) or not context.is_main_type:
        return []
    if size in _LONG_SIZES:
        return _without_each(inputs)
    number = EDGES.index(int(size)) // _ONE_OF if size.isdecimal() and int(size) in EDGES else len(case.label)
    return [_without_each(inputs)[number % len(inputs)]]
