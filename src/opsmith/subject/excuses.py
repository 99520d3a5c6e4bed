"""Puts no limit where several results are right: where sums may overflow, and where padding may meet an infinity."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch
from torch import Tensor

from opsmith.subject.copies import cast, copied, mapped
from opsmith.subject.evidence import Evidence

__all__ = ["allow_nan_of_padding", "allow_overflow"]


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


def allow_nan_of_padding(evidence: Evidence, spread: list[Tensor], pointwise: tuple[bool, ...]) -> tuple[Tensor, ...]:
    """Put no limit where the reference has NaN because an infinity met the zeros of a padding.

    A padding of zeros times inf is NaN, and a kernel that leaves the padding out is not wrong. The results that have one
    are those in which some NaN stands where no finite number in place of the infinities makes a difference. A NaN among
    the inputs has to stay one, and so has what is made of infinities elsewhere, as by inf - inf. Returns where that is.
    """
    calm = evidence.run(mapped(copied(evidence.wide), _tamed(1.0)))
    other = evidence.run(mapped(copied(evidence.wide), _tamed(-0.75)))
    found = []
    for limit, one, two, value, alone in zip(spread, calm, other, evidence.exact, pointwise, strict=True):
        found.append(torch.zeros_like(value, dtype=torch.bool))
        if alone or not (limit.shape == one.shape == two.shape and one.dtype.is_floating_point):
            continue
        of_infinity = value.isnan() & ~one.detach().isnan()
        if bool((of_infinity & (one == two)).any()):
            found[-1] = of_infinity
            limit.masked_fill_(of_infinity, torch.inf)
    return tuple(found)


def _tamed(scale: float) -> Callable[[Tensor], Tensor]:
    """Return what puts finite numbers in place of infinities, each another one: 1, 1.03, 1.06, ... times a scale."""

    def tame(tensor: Tensor) -> Tensor:
        steps = torch.arange(tensor.numel(), dtype=tensor.dtype, device=tensor.device).reshape(tensor.shape)
        return torch.where(tensor.isinf(), tensor.sign() * scale * (1 + 0.03 * (steps % 31)), tensor)

    return tame
