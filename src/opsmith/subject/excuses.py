"""Puts no limit where several results are right: where sums may overflow, and where padding may meet an infinity."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from opsmith.subject.copies import cast, copied, mapped
from opsmith.subject.evidence import Evidence

__all__ = ["allow_nan_of_padding", "allow_overflow", "allow_what_is_not_finite"]

# Finite numbers that make a difference wherever one may: small, and larger and smaller than all others.
_SCALES = (1.0, 100.0, -100.0)


def allow_overflow(evidence: Evidence, spread: list[Tensor], pointwise: tuple[bool, ...]) -> None:
    """Put no limit where a sum of numbers of one sign leaves the type that sums are made in.

    With both signs it may leave it as well or not, depending on the order of the sum.
    """
    dtype = torch.float64 if evidence.dtype is torch.float64 else torch.float32
    try:
        results = evidence.run(cast(mapped(copied(evidence.wide), torch.abs), dtype))
    except (RuntimeError, NotImplementedError):
        return
    for limit, result in zip(spread, results, strict=True):
        if limit.shape == result.shape and result.dtype.is_floating_point:
            limit.masked_fill_(~result.detach().isfinite(), torch.inf)
    # Nor where the reference itself has no digit right in that type, because a square or a product left it.
    with contextlib.suppress(RuntimeError, NotImplementedError):
        results = evidence.run(cast(copied(evidence.wide), dtype))
        for limit, result, value, alone in zip(spread, results, evidence.exact, pointwise, strict=True):
            if limit.shape == result.shape and result.dtype.is_floating_point:
                distance = (result.detach().to(torch.float64) - value).abs()
                is_wrong = ~(distance <= 0.5 * value.abs()) & value.isfinite()
                everywhere = not alone and bool(is_wrong.any())
                limit.masked_fill_(torch.ones_like(is_wrong) if everywhere else is_wrong, torch.inf)


def allow_what_is_not_finite(exact: Sequence[Tensor], spread: list[Tensor], pointwise: tuple[bool, ...]) -> None:
    """Put no limit where the reference itself is not finite, unless each element depends on one of each input.

    Quotients by tiny numbers leave float64, and nothing wider says what is right: by the order of their factors and sums
    they are finite, infinite, or inf - inf.
    """
    for limit, value, alone in zip(spread, exact, pointwise, strict=True):
        if value.dtype.is_floating_point and not alone:
            limit.masked_fill_(~value.isfinite(), torch.inf)


def allow_nan_of_padding(evidence: Evidence, spread: list[Tensor], pointwise: tuple[bool, ...]) -> tuple[Tensor, ...]:
    """Put no limit where the reference has NaN because NaN or an infinity met the zeros of a padding; return where.

    A padding of zeros times inf is NaN, and a kernel that leaves the padding out is not wrong. It shows where a result is
    NaN and no finite number in place of the special ones makes a difference. If there is such a one, the infinities of
    others may have met zeros as well. All other NaN has to stay, and so has what is made of infinities, as by inf - inf.
    """
    found = _independent(evidence, of_infinities=True)
    found = [mask & ~torch.tensor(alone, device=mask.device) for mask, alone in zip(found, pointwise, strict=True)]
    if any(bool(mask.any()) for mask in found):
        more = _independent(evidence, of_infinities=False)
        found = [mask | other if bool(mask.any()) else mask for mask, other in zip(found, more, strict=True)]
    for limit, mask in zip(spread, found, strict=True):
        limit.masked_fill_(mask, torch.inf)
    return tuple(found)


def _independent(evidence: Evidence, *, of_infinities: bool) -> list[Tensor]:
    """Return where results are NaN and no finite number in place of NaN, or of infinities too, makes a difference."""
    first, *others = (
        evidence.run(mapped(copied(evidence.wide), _tamed(scale, scale if of_infinities else 1.0))) for scale in _SCALES
    )
    found = []
    for index, value in enumerate(evidence.exact):
        # Where data decides about sizes, other numbers give other ones.
        has_same_size = all(results[index].shape == value.shape for results in (first, *others))
        same = [first[index] == other[index] for other in others] if has_same_size else []
        is_known = value.dtype.is_floating_point and has_same_size
        found.append(
            value.isnan() & torch.stack(same).all(0) if is_known else torch.zeros_like(value, dtype=torch.bool)
        )
    return found


def _tamed(of_nan: float, of_infinity: float) -> Callable[[Tensor], Tensor]:
    """Return what puts finite numbers in place of NaN and infinities, each another one: 1, 1.03, 1.06, ... times a scale."""

    def tame(tensor: Tensor) -> Tensor:
        steps = torch.arange(tensor.numel(), dtype=tensor.dtype, device=tensor.device).reshape(tensor.shape)
        numbers = torch.where(tensor.isnan(), of_nan, of_infinity) * (1 + 0.03 * (steps % 31))
        return torch.where(tensor.isfinite(), tensor, numbers)

    return tame
