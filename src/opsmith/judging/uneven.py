"""Makes inputs of a task's own numbers of which some count for much more than others, or whose last bits do.

What is added up over many terms hides a lower precision of each, and terms that are never read: both are far off where few
terms decide, or a part of them. Every number is moved towards zero, or the tensor's own number nearest to it where all have
one sign, so that the tensor's range and signs tell nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from opsmith.subject.draws import Draws

__all__ = ["LOST_BITS", "layered", "rounded_down", "thinned", "with_large_ends"]

# About so many numbers of the longest dimension stay as they are, and of a tensor at least so many.
_FEW, _FEWEST = 4, 16
# The others are as much nearer to zero, together no more than those in sums of 16,384 terms, and far from denormal. They are
# no constant: equal terms are all rounded alike, for which a sum may be off by more. In longer sums they would decide, and
# are so faint that they do not count at all.
_FAINT, _LONGEST, _FAINTER = 2.0**-12, 1 << 14, 2.0**-30
# A tensor without numbers so much smaller than usual has none that nearly vanish.
_NEAR_ZERO = 2.0**-10
# Of a dimension's units some are smaller, by their residues, and units are twice as long from level to level. No sample of
# a stride that has a factor with a number of residues has as large a part of the smaller ones: of 12 residues those are 5,
# and a stride of 3 or 8 meets 4 or 3 of them. Longer units are skipped in powers of two.
# A part is so much smaller; where a number may be in many, what all of them make of it: of numbers over more decades the few
# large ones decide about a sum, and one in a single accumulator loses the others.
_SMALLER, _TOGETHER = 0.25, 2.0**-14
_OF_ELEMENTS, _OF_UNITS = ((12, 5), (35, 17), (143, 71)), ((12, 5),)
_FEWEST_UNITS = 36

# What lies at an end of N slices is so many times larger for each root of N: alone it decides about a sum of N squares, and
# counts in one of N numbers. It stays so far below the largest number of its type.
_TIMES_ROOT, _FAR_FROM_OVERFLOW = 4.0, 2.0**-8
# Several at each end: what is made of one may be nothing, as the loss of a row whose largest number is the right one.
_ENDS = 4

# How many of a float32's 23 bits of a mantissa TensorFloat-32 rounds away, and bfloat16.
LOST_BITS = (13, 16)

_Change = Callable[[Tensor, Tensor], Tensor]


def thinned(draws: Draws, *, of_all: bool = False) -> _Change:
    """Return what makes all but a few numbers of a tensor nearly vanish; the tensor itself where that is not possible.

    A few are left of each row, or `of_all` numbers together, for what is one sum of all; and one that is the first along
    each dimension, and one that is the last.
    """

    def change(value: Tensor, _: Tensor) -> Tensor:
        wide = _wide(value)
        base = _nearest_to_zero(wide)
        usual = torch.linalg.vector_norm(wide.nan_to_num(0.0, 0.0, 0.0)) / math.sqrt(wide.numel())
        if bool(base.abs() > _NEAR_ZERO * usual):
            return value
        terms = value.numel() if of_all else max(value.shape)
        part = max(0 if of_all else _FEW / terms, _FEWEST / value.numel())
        stays = draws.uniform(value) < part
        for dim in range(value.dim()):
            for end in (0, -1):
                _set_one(stays.narrow(dim, end % value.shape[dim], 1), draws)
        factor = torch.where(stays, 1.0, _FAINT if terms <= _LONGEST else _FAINTER)
        return _towards(wide, base, factor).to(value.dtype)

    return change


def _set_one(chosen: Tensor, draws: Draws) -> None:
    """Make one truth value of a view true."""
    random = draws.generator(torch.empty(0))
    chosen[tuple(int(torch.randint(size, (), generator=random)) for size in chosen.shape)] = True


def layered(draws: Draws) -> _Change:
    """Return what makes parts of a tensor smaller, by all of its dimensions: every second, every eighth, a half, an eighth.

    A tensor whose dimensions are short is returned itself.
    """

    def change(value: Tensor, _: Tensor) -> Tensor:
        count = sum(len(_parts_of(size)) for size in value.shape)
        if count == 0:
            return value
        smaller = max(_SMALLER, _TOGETHER ** (1 / count))
        wide, factor = _wide(value), torch.ones((), device=value.device)
        for dim, size in enumerate(value.shape):
            shape = [size if other == dim else 1 for other in range(value.dim())]
            factor = factor * _levels(size, smaller, draws, value.device).view(shape)
        return _towards(wide, _nearest_to_zero(wide), factor).to(value.dtype)

    return change


def with_large_ends(dim: int | None) -> _Change:
    """Return what makes the first and last slices along a dimension larger, or of all numbers in a row with None.

    The tensor itself where they cannot be.
    """

    def change(value: Tensor, _: Tensor) -> Tensor:
        if dim is None:
            return with_large_ends(0)(value.reshape(-1), value).view(value.shape)
        wide = _wide(value)
        largest = float(wide.abs().nan_to_num(0.0, 0.0, 0.0).max())
        room = torch.finfo(value.dtype).max * _FAR_FROM_OVERFLOW / largest if largest else 1.0
        factor = 2.0 ** math.floor(math.log2(min(_TIMES_ROOT * math.sqrt(value.shape[dim]), room)))
        if factor <= 1:
            return value
        size = value.shape[dim]
        ends = max(1, min(_ENDS, size // 8))
        factors = torch.ones(size, device=value.device)
        factors[:ends] = factors[size - ends :] = factor
        return (wide.movedim(dim, -1) * factors).movedim(-1, dim).to(value.dtype)

    return change


def rounded_down(draws: Draws, lost: int) -> _Change:
    """Return what makes numbers larger, by almost half a unit, than a type with so many bits less makes of them.

    Each is moved towards zero. Of others roundings go both ways, and a sum of many is off by little. A tensor that is not
    in float32 is returned itself.
    """

    def change(value: Tensor, _: Tensor) -> Tensor:
        if value.dtype is not torch.float32:
            return value
        half = 1 << (lost - 1)
        kept = value.contiguous().view(torch.int32) & -(2 * half)
        # Between a quarter of a unit and a half: no number of bits is in all of them.
        below_half = (half // 2 + draws.uniform(value).to(value.device) * (half // 2)).to(torch.int32)
        moved = (kept - 2 * half + below_half).view(torch.float32)
        is_normal = value.isfinite() & (value.abs() >= torch.finfo(torch.float32).smallest_normal * 2)
        return torch.where(is_normal, moved, value)

    return change


def _parts_of(size: int) -> list[tuple[int, int, int]]:
    """Return the parts along a dimension: how long their units are, of how many residues those, and how many are smaller."""
    found = []
    length = 1
    while size >= _FEWEST_UNITS * length:
        found += [(length, *one) for one in (_OF_ELEMENTS if length == 1 else _OF_UNITS)]
        length *= 2
    return found


def _levels(size: int, smaller: float, draws: Draws, device: torch.device) -> Tensor:
    """Return the factors along a dimension."""
    random = draws.generator(torch.empty(0))
    places = torch.arange(size, device=device)
    found = torch.ones(size, device=device)
    for length, residues, count in _parts_of(size):
        chosen = torch.randperm(residues, generator=random)[:count]
        of_residue = torch.ones(residues).index_fill_(0, chosen, smaller).to(device)
        found *= of_residue[places // length % residues]
    return found


def _wide(value: Tensor) -> Tensor:
    """Return a tensor in a type that PyTorch has arithmetic for."""
    return value if value.itemsize >= 4 else value.float()


def _nearest_to_zero(wide: Tensor) -> Tensor:
    """Return what is nearest to zero between the least and the largest number: zero itself where there are both signs."""
    finite = wide[wide.isfinite()]
    if finite.numel() == 0:
        return wide.new_zeros(())
    least, most = torch.aminmax(finite)
    return least.clamp(min=0) + most.clamp(max=0)


def _towards(wide: Tensor, base: Tensor, factor: Tensor) -> Tensor:
    """Return numbers that are nearer to one of them; infinities stay, and NaN."""
    return torch.where(wide.isfinite() & (factor < 1), base + (wide - base) * factor, wide).to(wide.dtype)
