"""Puts no limit where several results are right: where sums may overflow, and where padding may meet an infinity."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch
from torch import Tensor

from opsmith.subject.copies import cast, copied, mapped
from opsmith.subject.evidence import Evidence

__all__ = ["allow_nan_of_padding", "allow_overflow"]

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


def allow_nan_of_padding(
    evidence: Evidence, spread: list[Tensor], pointwise: tuple[bool, ...]
) -> tuple[Tensor, ...]:
    """Put no limit where the reference has NaN because NaN or an infinity met the zeros of a padding; return where.

    A padding of zeros times inf is NaN, and a kernel that leaves the padding out is not wrong. It shows where a result is
    NaN and no finite number in place of the special ones makes a difference. If there is such a one, the infinities of
    others may have met zeros as well. All other NaN has to stay, and so has what is made of infinities, as by inf - inf.
    """
    tamed = [evidence.run(mapped(copied(evidence.wide), _tamed(scale))) for scale in _SCALES]
    found = [torch.zeros_like(value, dtype=torch.bool) for value in evidence.exact]
    for index, value in enumerate(evidence.exact):
        first, *others = (results[index] for results in tamed)
        if pointwise[index] or not value.dtype.is_floating_point or first.shape != value.shape:
            continue
        found[index] = value.isnan() & torch.stack([first == other for other in others]).all(0)
    if any(bool(mask.any()) for mask in found):
        calm = evidence.run(mapped(copied(evidence.wide), _tamed(1.0, with_nan=False)))
        for mask, one, value in zip(found, calm, evidence.exact, strict=True):
            if bool(mask.any()):
                mask |= value.isnan() & ~one.detach().isnan()
    for limit, mask in zip(spread, found, strict=True):
        limit.masked_fill_(mask, torch.inf)
    return tuple(found)


def _tamed(scale: float, *, with_nan: bool = True) -> Callable[[Tensor], Tensor]:
    """Return what puts finite numbers in place of infinities and NaN, each another one: 1, 1.03, 1.06, ... times a scale."""

    def tame(tensor: Tensor) -> Tensor:
        steps = torch.arange(tensor.numel(), dtype=tensor.dtype, device=tensor.device).reshape(tensor.shape)
        is_special = tensor.isinf() | (tensor.isnan() if with_nan else tensor.isinf())
        return torch.where(is_special, scale * (1 + 0.03 * (steps % 31)), tensor)

    return tame
