"""Says where several results are right: where sums may overflow, and where an infinity may meet zeros or other signs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from functools import partial

import torch
from torch import Tensor

from opsmith.subject.copies import cast, copied, floating_names, mapped
from opsmith.subject.evidence import Evidence

__all__ = [
    "allow_limits",
    "allow_nan_of_padding",
    "allow_overflow",
    "allow_what_is_not_finite",
    "lost_digits",
    "undefined_by_order",
]

# With an error of so large a part of a result digits are lost in float32; with one of so few units some are left.
_LOST, _SOUND_UNITS = 2.0**-12, 4e6
# In place of infinities: squares of the first are numbers in float64, and both have the same limit.
_LARGE = (1e30, 1e60)
# Finite numbers that make a difference wherever one may: small, and larger and smaller than all others.
_SCALES = (1.0, 100.0, -100.0)


def allow_overflow(evidence: Evidence, spread: list[Tensor], pointwise: tuple[bool, ...]) -> None:
    """Put no limit where a sum of numbers of one sign leaves the type that sums are made in.

    With both signs it may leave it as well or not, depending on the order of the sum.
    """
    dtype = torch.float64 if evidence.dtype is torch.float64 else torch.float32
    try:
        results = evidence.run(cast(mapped(copied(evidence.wide), torch.abs), dtype))
    except RuntimeError:
        return
    for limit, result in zip(spread, results, strict=True):
        if limit.shape == result.shape and result.dtype.is_floating_point:
            limit.masked_fill_(~result.detach().isfinite(), torch.inf)
    # Nor where the reference itself has no digit right in that type, because a square or a product left it.
    with contextlib.suppress(RuntimeError):
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


def allow_limits(evidence: Evidence, spread: list[Tensor], pointwise: tuple[bool, ...]) -> None:
    """Put no limit where the reference has NaN of infinities alone: with large numbers in their place it has a number.

    Another order of products and sums may come to that, as (x - m) inf does where x inf - m inf has none; a clamp hides it.
    A function of one number has no other order.
    """
    is_of_one = len(floating_names(evidence.wide)) < 2
    masks = [
        value.isnan() & (not (alone and is_of_one)) for value, alone in zip(evidence.exact, pointwise, strict=True)
    ]
    for large in _LARGE:
        if not any(bool(one.any()) for one in masks):
            return
        try:
            results = evidence.run(mapped(copied(evidence.wide), partial(_with_numbers, large)))
        except Exception:
            return
        pairs = zip(masks, results, strict=True)
        masks = [mask & ~one.isnan() if mask.shape == one.shape else mask & False for mask, one in pairs]
    for limit, mask in zip(spread, masks, strict=True):
        limit.masked_fill_(mask, torch.inf)


def _with_numbers(large: float, value: Tensor) -> Tensor:
    return torch.where(value.isinf(), value.sign() * large, value)


def undefined_by_order(evidence: Evidence, affine: Collection[str], pointwise: tuple[bool, ...]) -> list[Tensor]:
    """Return where results are not finite because of infinities in arguments that they are `affine` in.

    What the infinity is multiplied by is a sum there, before or after that: (k v) inf is an infinity where k1 v1 inf +
    k2 v2 inf is NaN. A kernel may do either.
    """
    if not affine or all(pointwise):
        return [torch.zeros_like(value, dtype=torch.bool) for value in evidence.exact]
    finite = mapped(copied(evidence.wide), _tamed(1.0, None))
    of_infinities = evidence.run(copied(finite))
    tamed = {name: mapped({name: finite[name]}, _tamed(1.0, 1.0))[name] for name in affine}
    without = evidence.run({**finite, **tamed})
    found = []
    for value, one, other, alone in zip(evidence.exact, of_infinities, without, pointwise, strict=True):
        is_known = value.dtype.is_floating_point and value.shape == one.shape == other.shape and not alone
        by_order = ~value.isfinite() & ~one.isfinite() & other.isfinite()
        found.append(by_order if is_known else torch.zeros_like(value, dtype=torch.bool))
    return found


def lost_digits(evidence: Evidence, noise: list[Tensor]) -> list[Tensor]:
    """Return noise, and of elements that have no digit left besides the noise that all have in float64.

    A fused function of PyTorch's may cancel inside: its gelu of -7 is the difference of two ones, times -3.5. In
    float32 the error then equals the result, and says nothing of float64; and of -9 float64 has no digit either,
    where a better kernel has all of them.
    """
    eps = torch.finfo(evidence.dtype).eps
    ratio = torch.finfo(torch.float64).eps / eps
    found = []
    for one, value in zip(noise, evidence.exact, strict=True):
        if not value.dtype.is_floating_point:
            found.append(one)
            continue
        wide = value.to(torch.float64).abs()
        is_normal = (wide > torch.finfo(torch.float32).smallest_normal) | (wide == 0)
        of_low = torch.finfo(torch.float64).eps / torch.finfo(torch.float32).eps if ratio == 1 else 1.0
        sound = one[one <= min(0.1, _SOUND_UNITS * eps) * wide]
        usual = float(sound.max()) * ratio if sound.numel() > 0 else 0.0
        lost = is_normal & (one >= _LOST * of_low * wide)
        found.append(torch.where(lost, one.clamp(min=usual), one))
    return found


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


def _tamed(of_nan: float, of_infinity: float | None) -> Callable[[Tensor], Tensor]:
    """Return what puts finite numbers in place of NaN and infinities, each another one: 1, 1.03, 1.06, ... times a scale.

    With None infinities stay.
    """

    def tame(tensor: Tensor) -> Tensor:
        steps = torch.arange(tensor.numel(), dtype=tensor.dtype, device=tensor.device).reshape(tensor.shape)
        stays = tensor.isfinite() if of_infinity is not None else ~tensor.isnan()
        numbers = torch.where(tensor.isnan(), of_nan, of_infinity or 1.0) * (1 + 0.03 * (steps % 31))
        return torch.where(stays, tensor, numbers)

    return tame
