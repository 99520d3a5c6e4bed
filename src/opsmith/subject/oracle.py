"""Computes the expected results of a call, and how far off a kernel may be.

The reference runs in float64 on the same numbers. The effect of one rounding on the result is measured, not
guessed: the reference runs again with the inputs off by one unit in the last place of the element type, up or down at
random, in float64 (which shows what cancels) and in the element type itself (which shows what its own roundings and
overflows do). A kernel may be off by a small multiple of that, of how far the reference itself is off in that type, and
of the rounding of the result. In half precision the multiple does not grow with the length of a sum, because sums belong
in float32 there; in float32 and float64 it does (Higham, Accuracy and Stability of Numerical Algorithms, ch. 4: the error
of a sum of n terms in order is at most n roundings).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from opsmith.subject.accepted_types import in_accepted_types
from opsmith.subject.case import Case
from opsmith.subject.disagreement import Disagreement, Expected, compare
from opsmith.subject.subject import Subject
from opsmith.subject.tolerance import EXTREME, OF_RESULT, allowed_errors, reduction_length, upcast, usual_scale

__all__ = ["Disagreement", "Expected", "compare", "evened", "expect", "upcast"]

_OVERFLOWING = frozenset({"huge", "loud"})
_PERTURBATIONS = 2
_MANY_ELEMENTS = 1 << 13
# The part of the others' noise that is allowed each element of ordinary inputs.
_OF_OTHERS = 0.25


def expect(
    subject: Subject,
    case: Case,
    values: Mapping[str, Any],
    run: Callable[[Mapping[str, Any]], list[Tensor]] | None = None,
    *,
    terms: int | None = None,
) -> Expected:
    """Return what a call should give; `values` are its arguments, which are not changed.

    `run` computes the results from arguments, by default the subject's reference; `terms` is how many terms its sums may
    have, by default those of the operator's. Raises whatever the reference raises.
    """
    run = in_accepted_types(subject, run or (lambda given: subject.results(subject.reference, given)), values)
    wide = upcast(values)
    exact = [result.detach() for result in run(_copied(wide))]
    dtype = _working_dtype(values)
    kinds = {recipe.values for recipe in case.tensors().values()}
    own = _own(run, values)
    spread = [torch.zeros_like(value, dtype=torch.float64) for value in exact]
    noise = [torch.zeros_like(value) for value in spread]
    if dtype is not None:
        random = torch.Generator().manual_seed(case.elements + 17)
        floating = _floating(values)
        # One argument at a time, since the effects of two could cancel; where that takes long, all at once.
        for names in [[name] for name in floating] if case.elements < _MANY_ELEMENTS else [floating]:
            for _ in range(_PERTURBATIONS):
                _add_distance(spread, exact, run(_perturbed(wide, names, dtype, random)))
        # float64 has no wider type to be compared with: its noise is that of float32, scaled down. Where magnitudes are
        # extreme that says nothing, and seven digits are asked for.
        low = torch.float32 if dtype is torch.float64 else dtype
        working = dtype
        if kinds & EXTREME:
            dtype = low
        for _ in range(_PERTURBATIONS if own is not None else 0):
            other = _perturbed(_cast(values, low), floating, low, random)
            _add_distance(noise, run(upcast(other)), run(other))
        if own is not None and kinds & EXTREME and low in (torch.float16, torch.bfloat16):
            # Two columns of a softmax may be one after rounding: that hangs on these very numbers, not on ones beside them.
            _add_distance(noise, exact, own)
        if "special" in kinds:
            _allow_nan_of_inf(spread, run, wide, exact)
        if kinds & _OVERFLOWING:
            _allow_overflow(spread, run, wide, exact, torch.float64 if working is torch.float64 else torch.float32)
        if not kinds & (EXTREME | {"special"}):
            noise = [evened(item) for item in noise]
        if low is not dtype:
            ratio = torch.finfo(dtype).eps / torch.finfo(low).eps
            noise = [item * ratio for item in noise]
    length = reduction_length(subject, case) if terms is None else terms
    usual = usual_scale(subject, case, run, dtype)
    allowed = [
        allowed_errors(value, one, two, dtype, length, usual)
        for value, one, two in zip(exact, spread, noise, strict=True)
    ]
    return Expected(tuple(exact), tuple(allowed), None if own is None else tuple(result.cpu() for result in own))


def _allow_overflow(
    spread: list[Tensor],
    run: Callable[[Mapping[str, Any]], list[Tensor]],
    wide: Mapping[str, Any],
    exact: list[Tensor],
    dtype: torch.dtype,
) -> None:
    """Put no limit where a sum of numbers of one sign leaves the type that sums are made in.

    With both signs it may leave it as well or not, depending on the order of the sum.
    """

    def positive(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.abs() if value.dtype.is_floating_point else value
        return [positive(item) for item in value] if isinstance(value, list) else value

    try:
        results = run(_cast({name: positive(value) for name, value in wide.items()}, dtype))
    except (RuntimeError, NotImplementedError):
        return
    for limit, result in zip(spread, results, strict=True):
        if limit.shape == result.shape and result.dtype.is_floating_point:
            limit.masked_fill_(~result.detach().isfinite(), math.inf)
    # Nor where the reference itself has no digit right in that type, because a square or a product left it.
    with contextlib.suppress(RuntimeError, NotImplementedError):
        for limit, result, value in zip(spread, run(_cast(_copied(wide), dtype)), exact, strict=True):
            if limit.shape == result.shape and result.dtype.is_floating_point:
                distance = (result.detach().to(torch.float64) - value).abs()
                if bool((~(distance <= 0.5 * value.abs()) & value.isfinite()).any()):
                    limit.fill_(math.inf)


def _allow_nan_of_inf(
    spread: list[Tensor],
    run: Callable[[Mapping[str, Any]], list[Tensor]],
    wide: Mapping[str, Any],
    exact: list[Tensor],
) -> None:
    """Put no limit where the reference has NaN because of an infinity alone.

    A padding of zeros times inf is NaN, and a kernel that leaves the padding out is not wrong. A NaN has to stay one.
    """

    def tame(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.nan_to_num(nan=math.nan, posinf=1.0, neginf=-1.0) if value.dtype.is_floating_point else value
        return [tame(item) for item in value] if isinstance(value, list) else value

    calm = run({name: tame(value) for name, value in _copied(wide).items()})
    for limit, result, value in zip(spread, calm, exact, strict=True):
        if limit.shape == result.shape and result.dtype.is_floating_point:
            limit.masked_fill_(value.isnan() & ~result.detach().isnan(), math.inf)


def evened(noise: Tensor) -> Tensor:
    """Return noise with a part of what all have added to each: where roundings grow from step to step, or the reference
    has lost its digits too, chance decides which element has few.
    """
    finite = noise[noise.isfinite()]
    return noise if finite.numel() == 0 else noise + _OF_OTHERS * float(finite.square().mean().sqrt())


def _own(run: Callable[[Mapping[str, Any]], list[Tensor]], values: Mapping[str, Any]) -> list[Tensor] | None:
    try:
        return [result.detach() for result in run(_copied(values))]
    except (RuntimeError, NotImplementedError):
        return None  # "not implemented for 'Half'"


def _add_distance(total: list[Tensor], one: list[Tensor], other: list[Tensor]) -> None:
    """Add how far results are apart; what is NaN or infinite on one side alone is infinitely far."""
    for sums, first, second in zip(total, one, other, strict=True):
        if first.shape != second.shape:
            sums.fill_(math.inf)
            continue
        a, b = first.detach().to(torch.float64), second.detach().to(torch.float64)
        alike = (a == b) | (a.isnan() & b.isnan())
        sums.add_(torch.where(alike, 0.0, (a - b).abs()).nan_to_num(nan=math.inf, posinf=math.inf))


def _floating(values: Mapping[str, Any]) -> list[str]:
    """Return the names of the arguments that hold floating-point numbers."""
    return [
        name
        for name, value in values.items()
        for first in (value[:1] if isinstance(value, list) else [value])
        if isinstance(first, Tensor) and first.dtype.is_floating_point
    ]


def _perturbed(
    values: Mapping[str, Any], names: list[str], dtype: torch.dtype, random: torch.Generator
) -> dict[str, Any]:
    """Return copies of the arguments, some of them off by one unit in the last place of `dtype`."""
    eps = torch.finfo(dtype).eps

    def off(tensor: Tensor) -> Tensor:
        signs = torch.randint(0, 2, tensor.shape, generator=random).to(tensor.device, torch.float64) * 2 - 1
        return (tensor.to(torch.float64) * (1 + eps * signs)).to(tensor.dtype)

    copied = _copied(values)
    for name in names:
        value = copied[name]
        copied[name] = [off(item) for item in value] if isinstance(value, list) else off(value)
    return copied


def _cast(values: Mapping[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    def cast(value: Any) -> Any:
        if isinstance(value, Tensor) and value.dtype.is_floating_point:
            return value.detach().to(dtype)
        return [cast(item) for item in value] if isinstance(value, list) else value

    return {name: cast(value) for name, value in values.items()}


def _copied(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with copies of the tensors: the reference may write to them."""

    def copy(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.detach().clone()
        return [copy(item) for item in value] if isinstance(value, list) else value

    return {name: copy(value) for name, value in values.items()}


def _working_dtype(values: Mapping[str, Any]) -> torch.dtype | None:
    """Return the coarsest floating type among the arguments."""
    tensors = [item for value in values.values() for item in (value if isinstance(value, list) else [value])]
    found = {item.dtype for item in tensors if isinstance(item, Tensor) and item.dtype.is_floating_point}
    return max(found & OF_RESULT.keys(), key=lambda dtype: torch.finfo(dtype).eps, default=None)
