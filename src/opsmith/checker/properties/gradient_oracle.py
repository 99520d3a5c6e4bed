"""Computes the expected gradients of a call, with tolerances: at kinks and near overflows several are right."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from opsmith.checker.properties.agreement import refusals
from opsmith.checker.properties.context import Context
from opsmith.subject.accepted_types import in_accepted_types
from opsmith.subject.blame import blamed_on_reference
from opsmith.subject.case import Case
from opsmith.subject.derivatives import GradientRequest, NoGradientError, as_result, first_line
from opsmith.subject.oracle import Expected, Limits, evened, expect, upcast
from opsmith.subject.placed_values import are_indices

__all__ = ["eased", "expected_gradients", "without_overflow"]

# A kink of the reference: how far to both sides of it gradients may be taken from.
_BESIDE = 1e-6
_AT_KINKS = frozenset({"zeros", "ties"})

# How many roundings of what a gradient usually is one may be off whose terms cancel.
_OF_USUAL = 16.0

_LARGE_VALUES = frozenset({"mixed", "big", "steep", "loud"})

# What is so near to the largest number of its type may overflow on the way: the order of the factors decides.
_NEAR_LARGEST = 1e-3


def without_overflow(
    case: Case, found: list[Tensor], expected: Expected, results: Sequence[Tensor] = ()
) -> list[Tensor]:
    """Return gradients with what may overflow replaced by what is expected: the order of factors decides there.

    That is what comes near the largest number of the type, and in float16 all of large inputs; where exp and its like
    overflow for no good reason, float32 shows it as well. Where some of the gradients of large inputs come near it, a sum
    of others may be inf - inf in one order, which is NaN, and inf in another; so too where a recurrence of ordinary
    numbers grows until the reference itself has infinite gradients, or the call infinite `results` where those gradients
    are not asked for.
    """
    is_large = _is_large(case)
    overflows = is_large and _come_near(expected.values, found, _NEAR_LARGEST)
    if not overflows and _is_ordinary(case):
        is_infinite = any(bool(result.isinf().any()) for result in results if result.dtype.is_floating_point)
        overflows = is_infinite or _come_near(expected.values, found, math.inf)
    replaced = []
    for result, value in zip(found, expected.values, strict=True):
        one = result
        if one.shape == value.shape and one.dtype.is_floating_point:
            near = value.abs() >= _NEAR_LARGEST * torch.finfo(one.dtype).max
            near = near | value.isnan() if overflows else near
            may = torch.ones_like(near) if is_large and one.dtype is torch.float16 else near
            one = torch.where(may & ~one.isfinite(), value.to(one), one)
        replaced.append(one)
    return replaced


def expected_gradients(context: Context, case: Case, request: GradientRequest, values: dict[str, Any]) -> Expected:
    """Return the gradients that a call should have; this, or its limits, raise RefusedError where there are none."""
    run = blamed_on_reference(as_result(context.subject, context.subject.reference, request))
    run = in_accepted_types(context.subject, run, values)
    terms = max((torch.Size(recipe.shape).numel() for recipe in case.tensors().values()), default=1)
    wide = upcast(values)
    with refusals(_describe):
        # The layout of the gradients that arrive makes no difference to what depends on what.
        about = replace(request, layout="contiguous", dtype="float64")
        expected = expect(context.subject, case, values, run, terms=max(terms, 1), about=about)

    def limits() -> Limits:
        with refusals(_describe):
            found = expected.limits
            if kinds := {recipe.values for recipe in case.tensors().values()} & _AT_KINKS:
                found = _with_kinks(expected, run, wide, everywhere="ties" in kinds)
        is_half = request.dtype in ("float16", "bfloat16")
        even_out = _at_worst if is_half and _is_large(case) else evened
        allowed = [one if alone else even_out(one) for one, alone in zip(found.allowed, found.pointwise, strict=True)]
        if request.layout == "summed":
            # What is nothing in sum, as through a softmax, was something on the way, with its roundings.
            plain = as_result(context.subject, context.subject.reference, replace(request, layout="contiguous"))
            usual = in_accepted_types(context.subject, plain, values)(wide)
            eps = torch.finfo(getattr(torch, request.dtype)).eps
            allowed = [
                one if alone else one + _OF_USUAL * eps * _largest(value)
                for one, value, alone in zip(allowed, usual, found.pointwise, strict=True)
            ]
        return replace(found, allowed=tuple(allowed))

    return replace(expected, measure=limits)


def _describe(error: Exception) -> str:
    if isinstance(error, NoGradientError):
        return str(error)
    return f"the reference cannot be differentiated: {first_line(error)}"


def eased(context: Context, case: Case, request: GradientRequest, expected: Expected) -> Expected:
    """Return expected gradients with one rounding more of what they are in the case without its particular size or layout.

    Through a softmax that has settled on one column gradients are nothing, and are the difference of terms that are as
    large as ever: of those a kernel has the roundings, and the reference, in one function of PyTorch's, may have none.
    """
    if case.base is None or set(request.inputs) - case.base.tensors().keys():
        return expected
    run = as_result(context.subject, context.subject.reference, replace(request, layout="contiguous"))
    try:
        usual = run(upcast(case.base.build(context.device)))
    except Exception:
        return expected
    eps = torch.finfo(getattr(torch, request.dtype)).eps
    scale = min(1.0, max(map(_largest, usual), default=0.0))
    limits = expected.limits
    allowed = zip(limits.allowed, limits.pointwise, strict=True)
    eased = replace(limits, allowed=tuple(one if alone else one + eps * scale for one, alone in allowed))
    return replace(expected, measure=lambda: eased)


def _come_near(values: Sequence[Tensor], found: list[Tensor], part: float) -> bool:
    """Whether some number is that part of the largest of its type; inf is an infinite one."""
    return any(
        bool((value.abs() >= part * torch.finfo(one.dtype).max).any())
        for one, value in zip(found, values, strict=True)
        if one.dtype.is_floating_point
    )


def _is_ordinary(case: Case) -> bool:
    """Whether no number was chosen, as the zeros are by which a reference may divide."""
    kinds = {recipe.values for recipe in case.tensors().values() if not are_indices(recipe.values)}
    return kinds <= {"normal", *_LARGE_VALUES}


def _is_large(case: Case) -> bool:
    return any(recipe.values in _LARGE_VALUES for recipe in case.tensors().values())


def _largest(value: Tensor) -> float:
    return float(value.abs().nan_to_num(0.0, 0.0, 0.0).max()) if value.numel() > 0 else 0.0


def _at_worst(allowed: Tensor) -> Tensor:
    """Allow each element what the worst is allowed besides: half precision of large values flips a softmax from one column
    to another, and which of the rows flip is another matter in each run.
    """
    finite = allowed[allowed.isfinite()]
    return allowed if finite.numel() == 0 else allowed + float(finite.max())


def _with_kinks(
    expected: Expected, run: Callable[[Any], list[Tensor]], wide: dict[str, Any], *, everywhere: bool
) -> Limits:
    """Allow what lies between the gradients on both sides of zeros, or of all numbers.

    Where several numbers are the largest, each may count. A function of one number has one slope at its kink, the
    reference's.
    """
    limits = expected.limits
    if all(limits.pointwise):
        return limits
    allowed = list(limits.allowed)
    for signs in (torch.ones_like, lambda x: -torch.ones_like(x), _alternating):
        for index, beside in enumerate(run(_beside(wide, signs, everywhere))):
            if limits.pointwise[index]:
                continue
            distance = (beside - expected.values[index]).abs().nan_to_num(nan=torch.inf)
            # What a smooth function does over so small a distance is not a kink, but may be steep.
            allowed[index] = allowed[index] + distance.to(allowed[index].dtype)
    return replace(limits, allowed=tuple(allowed))


def _beside(values: dict[str, Any], signs: Callable[[Tensor], Tensor], everywhere: bool) -> dict[str, Any]:
    def move(value: Any) -> Any:
        if isinstance(value, Tensor) and value.dtype.is_floating_point:
            return torch.where((value == 0) | everywhere, value + _BESIDE * signs(value), value)
        return [move(item) for item in value] if isinstance(value, list) else value

    return {name: move(value) for name, value in values.items()}


def _alternating(tensor: Tensor) -> Tensor:
    """Each element by itself: where several zeros are the largest, one of them is now."""
    steps = torch.arange(tensor.numel(), dtype=tensor.dtype, device=tensor.device).reshape(tensor.shape)
    return torch.where(steps % 2 == 0, 1.0, -1.0) * (1 + steps / max(tensor.numel(), 1))
