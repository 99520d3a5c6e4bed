"""What should a call have given, and how far off may a kernel be?

The reference is run in float64 on the same numbers. What an error of one rounding can do to the result is measured, not
guessed: the reference is run again with the inputs off by one unit in the last place of the element type, up or down at
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
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opsmith.check.recipe import Case
from opsmith.check.subject import Subject
from opsmith.spec.signature import Kind

__all__ = ["Disagreement", "Expected", "compare", "expect", "upcast"]

# How many roundings of the result, and how many times the effect of one rounding in the inputs, a kernel may be off.
# Functions of libm and of a GPU differ by a few units; in half precision the one rounding at the end is most of it.
_OF_RESULT = {torch.float64: 64.0, torch.float32: 16.0, torch.float16: 2.0, torch.bfloat16: 2.0}
_OF_INPUTS = {torch.float64: 16.0, torch.float32: 8.0, torch.float16: 4.0, torch.bfloat16: 4.0}
_OVERFLOWING = frozenset({"huge", "loud"})
_OF_SCALE = 16.0
_OF_NOISE = 4.0
_PERTURBATIONS = 2
_EXTREME = frozenset({"mixed", "big", "steep", "huge", "loud"})
_MANY_ELEMENTS = 1 << 13


@dataclass(frozen=True)
class Expected:
    """Results in float64 (integers as they are), how far off each element may be, and what the body gives by itself.

    `own` are the reference's results in the element type under check: whoever agrees with them to the last digits agrees
    with the definition, and where they are not finite a kernel need not be either. It is None where the reference does
    not run in that type.
    """

    values: tuple[Tensor, ...]
    allowed: tuple[Tensor, ...]
    own: tuple[Tensor, ...] | None


@dataclass(frozen=True)
class Disagreement:
    """The worst element of a result: which output, where, what was found, what was expected, and what is allowed."""

    output: int
    index: tuple[int, ...]
    found: float
    expected: float
    allowed: float
    elements: int
    wrong: int
    kind: str  # "value", "nan", "inf", "shape", "count"

    def __str__(self) -> str:
        where = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        part = f"{self.wrong} of {self.elements} elements" if self.elements > 1 else "the only element"
        if self.kind in ("shape", "count"):
            return "the results have other shapes than the reference's"
        return (
            f"output {self.output}{where} is {self.found:.9g}, the reference has {self.expected:.9g} "
            f"(allowed: {self.allowed:.2g}; {part} wrong)"
        )


def upcast(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with floating tensors in float64; all tensors are copies, contiguous."""

    def up(value: Any) -> Any:
        if isinstance(value, Tensor):
            return (
                value.detach()
                .to(torch.float64 if value.dtype.is_floating_point else value.dtype, copy=True)
                .contiguous()
            )
        return [up(item) for item in value] if isinstance(value, list) else value

    return {name: up(value) for name, value in values.items()}


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
    run = run or (lambda given: subject.results(subject.reference, given))
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
        if kinds & _EXTREME:
            dtype = low
        for _ in range(_PERTURBATIONS if own is not None else 0):
            other = _perturbed(_cast(values, low), floating, low, random)
            _add_distance(noise, run(upcast(other)), run(other))
        if "special" in kinds:
            _allow_nan_of_inf(spread, run, wide, exact)
        if kinds & _OVERFLOWING:
            _allow_overflow(spread, run, wide, exact, torch.float64 if working is torch.float64 else torch.float32)
        if low is not dtype:
            ratio = torch.finfo(dtype).eps / torch.finfo(low).eps
            noise = [item * ratio for item in noise]
    length = _reduction_length(subject, case) if terms is None else terms
    usual = _usual_scale(subject, case, run, dtype)
    allowed = [
        _allowed(value, one, two, dtype, length, usual) for value, one, two in zip(exact, spread, noise, strict=True)
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


def compare(found: list[Tensor], expected: Expected) -> Disagreement | None:
    """Return the worst disagreement of some results with what is expected, or None where there is none."""
    if len(found) != len(expected.values):
        return Disagreement(0, (), len(found), len(expected.values), 0, 0, 0, "count")
    for number, (result, value, allowed) in enumerate(zip(found, expected.values, expected.allowed, strict=True)):
        if result.shape != value.shape:
            return Disagreement(number, (), math.nan, math.nan, 0, 0, 0, "shape")
        own = None if expected.own is None else expected.own[number]
        if (worst := _worst(number, result.detach().cpu(), value.cpu(), allowed.cpu(), own)) is not None:
            return worst
    return None


def _worst(number: int, result: Tensor, value: Tensor, allowed: Tensor, own: Tensor | None) -> Disagreement | None:
    if result.numel() == 0:
        return None
    if not result.dtype.is_floating_point:
        wrong = (result != value) & (allowed == 0)
        distance = (result.to(torch.float64) - value.to(torch.float64)).abs()
    else:
        got, want = result.to(torch.float64), value.to(torch.float64)
        distance = (got - want).abs()
        info = torch.finfo(result.dtype)
        # What leaves the type rounds to inf, and just below that either is right.
        overflows = (want.abs() > info.max * (1 - 2 * info.eps)) & (got.abs() >= info.max * (1 - 2 * info.eps))
        right = (distance <= allowed) | (got == want) | (got.isnan() & want.isnan()) | allowed.isinf()
        right |= overflows & (got.sign() == want.sign())
        if own is not None and own.shape == result.shape:
            mine = own.to(torch.float64)
            right |= (got == mine) | (got.isnan() & mine.isnan()) | ((got - mine).abs() <= 4 * info.eps * mine.abs())
        wrong = ~right
        distance = torch.where(wrong, distance.nan_to_num(nan=math.inf, posinf=math.inf), torch.zeros_like(distance))
    if not bool(wrong.any()):
        return None
    score = torch.where(wrong, distance / (allowed + torch.finfo(torch.float64).tiny), torch.full_like(distance, -1.0))
    flat = int(score.reshape(-1).argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), result.shape)) if result.dim() else ()
    one, other, limit = (float(tensor.reshape(-1)[flat]) for tensor in (result, value, allowed))
    kind = "nan" if math.isnan(one) != math.isnan(other) else "inf" if math.isinf(one) != math.isinf(other) else "value"
    return Disagreement(number, index, one, other, limit, result.numel(), int(wrong.sum()), kind)


def _allowed(
    value: Tensor, spread: Tensor, noise: Tensor, dtype: torch.dtype | None, length: int, usual: float
) -> Tensor:
    if dtype is None or not value.dtype.is_floating_point:
        # Discrete results are right or wrong, but where one rounding decides them.
        return torch.where(spread + noise > 0, math.inf, 0.0).to(torch.float64)
    info = torch.finfo(dtype)
    of_length = length / 4 if dtype in (torch.float32, torch.float64) else 0
    finite = value[value.isfinite()]
    scale = float(finite.square().mean().sqrt()) if finite.numel() > 0 else 0.0
    # Sums inside are as accurate as float32 at least, measured against what is usual in the result.
    floor = (
        _OF_SCALE * min(info.eps, torch.finfo(torch.float32).eps) * max(scale if math.isfinite(scale) else 0.0, usual)
    )
    # What is denormal may be flushed to zero.
    total = (
        (_OF_RESULT[dtype] + of_length) * info.eps * value.abs()
        + (_OF_INPUTS[dtype] + of_length) * spread
        + _OF_NOISE * noise
        + floor
        + 4 * info.smallest_normal
    )
    # Of what is NaN no distance is measured.
    return torch.where(total.isnan(), torch.where((spread + noise).isinf(), math.inf, 0.0).to(total.dtype), total)


def _usual_scale(
    subject: Subject, case: Case, run: Callable[[Mapping[str, Any]], list[Tensor]], dtype: torch.dtype | None
) -> float:
    """Return how large results are for ordinary inputs, at most 1.

    Where a result is far smaller, the reference may have lost all digits of it (1 - tanh(20)**2 is 0) and a better
    kernel none. For inputs that are tiny themselves this is no measure.
    """
    recipes = case.tensors().values()
    if dtype is None or not any(recipe.values in _EXTREME for recipe in recipes):
        return 0.0
    try:
        results = run(upcast(case.changed(values="normal").build()))
    except Exception:
        return 0.0
    largest = [float(result.abs().nan_to_num(0.0).max()) for result in results if result.numel() > 0]
    return min(1.0, max(largest, default=0.0))


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
    return max(found & _OF_RESULT.keys(), key=lambda dtype: torch.finfo(dtype).eps, default=None)


def _reduction_length(subject: Subject, case: Case) -> int:
    """Return how many terms a sum in the operator may have: the product of the sizes that no output has.

    A size that an output has may be summed over as well (softmax, a running sum). Of such a sum the usual error is
    counted, which grows with the root of the length.
    """
    tensors = case.tensors()
    if subject.signature is None:
        return max((math.prod(recipe.shape) for recipe in tensors.values()), default=1)
    signature = subject.signature
    kept = {name for output in signature.outputs for name in output.tensor.shape.names}
    kept_groups = {output.tensor.shape.group for output in signature.outputs}
    length = math.isqrt(max((size for recipe in tensors.values() for size in recipe.shape), default=1))
    for parameter in signature.tensors:
        if parameter.kind is not Kind.TENSOR or (recipe := tensors.get(parameter.name)) is None:
            continue
        shape = parameter.tensor_type.shape
        own = 1
        for index, dim in enumerate(shape.dims):
            if dim.variadic and dim.group not in kept_groups:
                own *= math.prod(recipe.shape[: len(recipe.shape) - len(shape.dims) + 1])
            elif dim.expression is not None and not dim.expression.names <= kept:
                axis = shape.axis(index)
                own *= recipe.shape[axis]
        length = max(length, own)
    return max(1, length)
