"""Compares results with the expected ones, and describes the worst element in numbers and in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

__all__ = ["Disagreement", "Expected", "Limits", "apart", "compare", "place_of", "to_one_side"]

# Of fewer numbers chance decides to which side they are off, and what is denormal may be flushed.
_FEWEST_OF_SIDE, _FAR_FROM_DENORMAL = 64, 2.0**10


@dataclass(frozen=True)
class Limits:
    """How far off each element of each result may be. `pointwise` says of a result whether each of its elements depends on
    one element of each input.

    `closely` returns what may be allowed besides, by more runs of the reference. It is asked where results are wrong.
    `padded` says where a NaN of the reference may come from a padding, and need not be one; `undefined`, where any result
    that is not finite is right.
    """

    allowed: tuple[Tensor, ...]
    pointwise: tuple[bool, ...] = ()
    closely: Callable[[], tuple[Tensor, ...]] | None = None
    padded: tuple[Tensor, ...] = ()
    undefined: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class Expected:
    """Results in float64 (integers as they are), how far off each element may be, and what the body gives by itself.

    `own` are the reference's results in the element type under check: results that agree with them to the last digits
    agree with the definition, and where they are not finite a kernel need not be either. It is None if the reference does
    not run in that type.

    `certain` is how far off each element may be in any case. What is off by more is held to the limits that `measure`
    returns, never smaller ones: the reference runs a dozen times for them, and most results are nearer than that.

    `settled` returns results in which what is as good as the reference's is the same, where whoever expects them knows that.
    """

    values: tuple[Tensor, ...]
    own: tuple[Tensor, ...] | None
    certain: tuple[Tensor, ...]
    measure: Callable[[], Limits]
    settled: Callable[[Sequence[Tensor]], list[Tensor]] = list

    @cached_property
    def limits(self) -> Limits:
        """The measured limits; raises what the reference raises for inputs beside the given ones."""
        return self.measure()

    def completed(self) -> Expected:
        """Return this with its limits measured now, where a caller is not prepared for what that raises."""
        limits = self.limits
        return replace(self, measure=lambda: limits)

    def is_pointwise(self, wrong: Disagreement) -> bool:
        """Whether each element of the result that is wrong depends on one element of each input."""
        known = self.limits.pointwise if wrong.kind in ("value", "nan", "inf") else ()
        return wrong.output < len(known) and known[wrong.output]

    def leaves_padding_out(self, found: list[Tensor]) -> bool:
        """Whether results are numbers where the reference's are NaN because of a padding alone."""
        if "limits" not in self.__dict__:
            return False  # they are certain: NaN where the reference has one
        same = zip(found, self.limits.padded, strict=False)
        return any(one.shape == mask.shape and bool((mask.cpu() & ~one.cpu().isnan()).any()) for one, mask in same)


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
    kind: str  # "value", "side", "nan", "inf", "shape", "dtype", "count", "byte"
    shapes: tuple[tuple[int, ...], ...] = ()  # of the result and of the reference's, where they differ
    dtypes: tuple[torch.dtype, ...] = ()  # likewise

    def __str__(self) -> str:
        where = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        part = f"{self.wrong} of {self.elements} elements" if self.elements > 1 else "the only element"
        if self.kind == "count":
            there = "none (does it return?)" if self.expected == 0 else f"{self.expected:.0f}"
            return f"the number of results is {self.found:.0f}, the reference has {there}"
        if self.kind == "shape":
            shape, wanted = self.shapes
            return f"output {self.output} has the shape {shape}, the reference has {wanted}"
        if self.kind == "dtype":
            dtype, usual = self.dtypes
            return f"output {self.output} is {dtype}, the reference's is {usual}"
        if self.kind == "side":
            off = f"off by {self.found:+.2%} on the whole, and not to both sides"
            return f"output {self.output} is {off}, as roundings are ({self.allowed:.2%} allowed)"
        if self.kind == "byte":
            what = "which is neither False nor True"
            return f"output {self.output}{where} holds the byte {self.found:.0f}, {what} ({part} wrong)"
        return (
            f"output {self.output}{where} is {self.found:.9g}, the reference has {self.expected:.9g} "
            f"(allowed: {self.allowed:.2g}; {part} wrong)"
        )


def compare(found: list[Tensor], expected: Expected) -> Disagreement | None:
    """Return the worst disagreement of some results with what is expected, or None if there is none.

    Results have the element types of the reference's own. Raises what the reference raises where limits have to be measured.
    """
    if len(found) != len(expected.values):
        return Disagreement(0, (), len(found), len(expected.values), 0, 0, 0, "count")
    if (other := _other_dtype(found, expected)) is not None:
        return other
    if (odd := _odd_bytes(found)) is not None:
        return odd
    wrong = _first(found, expected, expected.certain)
    if wrong is None or wrong.kind == "shape":
        return wrong
    limits = expected.limits
    wrong = _first(found, expected, limits.allowed, limits.undefined)
    if wrong is None or limits.closely is None:
        return wrong
    allowed = tuple(map(torch.maximum, limits.allowed, limits.closely()))
    return _first(found, expected, allowed, limits.undefined)


def to_one_side(found: Sequence[Tensor], expected: Expected) -> Disagreement | None:
    """Return a disagreement where a result in half precision is off to one side: roundings go both ways.

    One in what all elements share moves all of them, by half a unit at most. Each may be right within its limits where a
    term is missing, or a divisor is another.
    """
    for number, (result, value) in enumerate(zip(found, expected.values, strict=True)):
        if result.dtype not in (torch.float16, torch.bfloat16) or result.shape != value.shape:
            continue
        info, got, want = torch.finfo(result.dtype), result.to(value.device, torch.float64), value.to(torch.float64)
        counted = got.isfinite() & want.isfinite() & (want.abs() > _FAR_FROM_DENORMAL * info.smallest_normal)
        got, want = got[counted], want[counted]
        squares = want.square()
        total = float(squares.sum())
        if len(want) < _FEWEST_OF_SIDE or not total:
            continue
        own = None if expected.own is None else expected.own[number].to(value.device, torch.float64)[counted]
        usual = 0.0 if own is None else abs(float(((own - want) * want).nan_to_num(0.0).sum())) / total
        off = float(((got - want) * want).sum()) / total
        # Of numbers that count alike: a few large ones decide about a sum.
        count = total * total / float(squares.square().sum())
        # A reference that converts to half precision itself may do so inside as well, where its own roundings add up.
        shared = 0.5 if value.dtype is torch.float64 else 3.0
        most = shared * info.eps + 3 * info.eps / math.sqrt(count) + 2 * usual
        if abs(off) > most:
            return Disagreement(number, (), off, 0.0, most, result.numel(), result.numel(), "side")
    return None


def _other_dtype(found: list[Tensor], expected: Expected) -> Disagreement | None:
    """Return the first result of another element type: in its own precision, a coarser one would be right."""
    for number, (result, value) in enumerate(zip(found, expected.values, strict=True)):
        usual = value.dtype if expected.own is None else expected.own[number].dtype
        # Without results in the type under check, those in float64 do not say which floating type is right.
        is_same = result.dtype is usual
        if expected.own is None and value.dtype.is_floating_point:
            is_same = result.dtype.is_floating_point
        if not is_same:
            dtypes = (result.dtype, usual)
            return Disagreement(number, (), math.nan, math.nan, 0, 0, 0, "dtype", dtypes=dtypes)
    return None


def _odd_bytes(found: list[Tensor]) -> Disagreement | None:
    """Return the first truth value that is neither 0 nor 1 in memory: PyTorch's operators may take it for either."""
    for number, result in enumerate(found):
        if result.dtype is not torch.bool or result.numel() == 0:
            continue
        held = result.detach().contiguous().view(torch.uint8)
        wrong = held > 1
        if bool(wrong.any()):
            flat = int(wrong.reshape(-1).to(torch.uint8).argmax())
            index = place_of(flat, result.shape)
            byte = float(held.reshape(-1)[flat])
            return Disagreement(number, index, byte, 1, 0, result.numel(), int(wrong.sum()), "byte")
    return None


def apart(one: Tensor, other: Tensor) -> Tensor:
    """Return how far two results are apart; what is NaN or infinite on one side alone is infinitely far."""
    if one.shape != other.shape:
        return torch.full(other.shape, torch.inf, dtype=torch.float64, device=other.device)
    a, b = one.detach().to(other.device, torch.float64), other.detach().to(torch.float64)
    distance = (a - b).abs_()
    distance.masked_fill_((a == b) | (a.isnan() & b.isnan()), 0.0)
    return distance.nan_to_num_(nan=torch.inf, posinf=torch.inf)


def place_of(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the index of an element that is counted in row-major order; torch.unravel_index imports SymPy, for a second."""
    index = []
    for size in reversed(shape):
        flat, rest = divmod(flat, size)
        index.append(rest)
    return tuple(reversed(index))


def _first(
    found: list[Tensor], expected: Expected, limits: tuple[Tensor, ...], undefined: tuple[Tensor, ...] = ()
) -> Disagreement | None:
    """Return the worst disagreement of the first result that has one."""
    for number, (result, value, allowed) in enumerate(zip(found, expected.values, limits, strict=True)):
        if result.shape != value.shape:
            shapes = (tuple(result.shape), tuple(value.shape))
            return Disagreement(number, (), math.nan, math.nan, 0, 0, 0, "shape", shapes)
        own = None if expected.own is None else expected.own[number]
        # Where the expected value is: what a judge gets has fewer bytes than that and its limits.
        near = result.detach().to(value.device)
        most = allowed
        if undefined and near.dtype.is_floating_point:
            # No order of things makes an infinity the opposite one.
            is_opposite = near.isinf() & value.isinf() & (near.sign() != value.sign())
            most = allowed.masked_fill(undefined[number] & ~near.isfinite() & ~is_opposite, math.inf)
        if (worst := _worst(number, near, value, most, own)) is not None:
            return worst
    return None


def _worst(number: int, result: Tensor, value: Tensor, allowed: Tensor, own: Tensor | None) -> Disagreement | None:
    if result.numel() == 0:
        return None
    if not result.dtype.is_floating_point:
        distance = (result.to(torch.float64) - value.to(torch.float64)).abs()
        # Integers of more than 53 bits that differ may have no distance.
        wrong = (result != value) & ((allowed == 0) | (distance > allowed))
        if own is not None and own.shape == result.shape:
            wrong &= result != own.to(value.device)
    else:
        got, want = result.to(torch.float64), value.to(torch.float64)
        distance = (got - want).abs_()
        if bool((distance <= allowed).all()):
            return None  # as nearly always; NaN is not near
        info = torch.finfo(result.dtype)
        # What leaves the type rounds to inf, and just below that either is right; an infinity is not a large number.
        limit = info.max * (1 - 2 * info.eps)
        overflows = want.isfinite() & (want.abs() > limit) & (got.abs() >= limit)
        right = (distance <= allowed) | (got == want) | (got.isnan() & want.isnan()) | allowed.isinf()
        right |= overflows & (got.sign() == want.sign())
        if own is not None and own.shape == result.shape:
            mine = own.to(value.device, torch.float64)
            near = (got - mine).abs() <= 4 * info.eps * mine.abs().nan_to_num(0.0, 0.0, 0.0)
            right |= (got == mine) | (got.isnan() & mine.isnan()) | near
        wrong = ~right
        distance = torch.where(wrong, distance.nan_to_num(nan=math.inf, posinf=math.inf), torch.zeros_like(distance))
    if not bool(wrong.any()):
        return None
    score = torch.where(wrong, distance / (allowed + torch.finfo(torch.float64).tiny), torch.full_like(distance, -1.0))
    flat = int(score.reshape(-1).argmax())
    index = place_of(flat, result.shape)
    one, other, most = (float(tensor.reshape(-1)[flat]) for tensor in (result, value, allowed))
    kind = "nan" if math.isnan(one) != math.isnan(other) else "inf" if math.isinf(one) != math.isinf(other) else "value"
    return Disagreement(number, index, one, other, most, result.numel(), int(wrong.sum()), kind)
