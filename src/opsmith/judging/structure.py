"""Finds what all inputs of a task have in common, such as a triangle of zeros, so that other numbers come with it too.

A kernel may rely on that: a product with triangular matrices is posed for the zeros to be left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "FEW",
    "SHORT",
    "Structure",
    "half_of_zeros",
    "has_few_numbers",
    "has_short_rows",
    "is_choice",
    "is_narrow",
    "may_be_scaled",
    "structure_of",
    "structures_of",
]

# Numbers of which there are so few are a choice, such as a mask of zeros and ones, and stay what they are.
FEW = 16
# So many draws show what all have in common.
_DRAWS = 3
# So many numbers are looked at first, and of larger tensors none: that takes seconds. Matrices are factorized up to a size.
_FIRST, _MOST, _MOST_OF_MATRICES = 1 << 12, 1 << 25, 1 << 20
# Slices that are looked at before all are, and zeros that are no chance.
_CORNER, _MANY_ZEROS = 8, 0.05
# The columns of so many may be in an order, as the corners of boxes are; of so few rows they are so by chance.
SHORT, _FEWEST_ROWS = 8, 16
# How far from 1 a norm is that has been made 1 in float32, and in units of a coarser type.
_NEAR_ONE, _UNITS = 1e-4, 8


@dataclass(frozen=True)
class Structure:
    """What all draws of a tensor have in common.

    `fixed` are the places where all have the same number, as a mask, and these numbers; `has_zeros` says that many are zero
    at places that change, and `nearest` is what is nearest to zero where none is, and all have one sign. `repeated` are
    dimensions of which slices are equal, with the first equal one of each.

    All are symmetric, or positive definite as well, or `sorted` along a dimension, downwards or not, or have slices along
    one whose sum is 1 (`unit` is the norm 1, and none is negative) or whose length is (2). Of pairs of `ordered` columns
    the second is nowhere smaller, and nor is what other arguments, those `above`, have.
    """

    fixed: tuple[Tensor, Tensor] | None = None
    has_zeros: bool = False
    nearest: float = 0.0
    repeated: tuple[tuple[int, Tensor], ...] = ()
    is_symmetric: bool = False
    is_definite: bool = False
    sorted: tuple[int, bool] | None = None
    unit: tuple[int, int] | None = None
    ordered: tuple[tuple[int, int], ...] = ()
    above: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self != Structure()

    @property
    def is_scalable(self) -> bool:
        """Whether the numbers times any factor have it too."""
        if self.fixed is None:
            return self.unit is None
        places, numbers = self.fixed
        return self.unit is None and bool((numbers[places] == 0).all())


def is_narrow(tensor: Tensor) -> bool:
    """Whether a tensor has float8, for which PyTorch has no arithmetic."""
    return tensor.is_floating_point() and tensor.itemsize == 1


def is_choice(value: Any) -> bool:
    """Whether a tensor's floating-point numbers stay what they are: few different ones, or float8."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return False
    if is_narrow(value):
        return True
    if not FEW < value.numel() <= _MOST:
        return False
    return has_few_numbers(value.detach().reshape(-1))


def has_few_numbers(flat: Tensor) -> bool:
    """Whether a tensor of one dimension has few different numbers."""
    return len(flat[:_FIRST].unique()) <= FEW and len(flat.unique()) <= FEW


def has_short_rows(value: Tensor) -> bool:
    """Whether the last of several dimensions is so short that its numbers may belong together, as the corners of a box."""
    return value.dim() > 1 and value.shape[-1] <= SHORT


def structures_of(make: Callable[[int], Mapping[str, Any]], seed: int) -> dict[str, Structure]:
    """Return what the draws of some seeds have in common, by argument."""
    return _structures(_draws(make, seed))


def may_be_scaled(make: Callable[[int], Mapping[str, Any]], seed: int) -> bool:
    """Whether all of a call's numbers may be multiplied by one, and are like those of a task's."""
    draws = _draws(make, seed)
    return not any(map(is_choice, draws[0].values())) and all(one.is_scalable for one in _structures(draws).values())


def _draws(make: Callable[[int], Mapping[str, Any]], seed: int) -> list[Mapping[str, Any]]:
    return [make(seed + number) for number in range(_DRAWS)]


def _structures(draws: Sequence[Mapping[str, Any]]) -> dict[str, Structure]:
    found = {name: structure_of([one[name] for one in draws]) for name in draws[0]}
    floating = [name for name, value in draws[0].items() if _has_numbers(value) and value.numel() >= _FEWEST_ROWS]
    for one, other in itertools.permutations(floating, 2):
        if all(_are_alike(call[one], call[other]) and _are_ordered(call[one], call[other]) for call in draws):
            found[one] = replace(found[one], above=(*found[one].above, other))
    return found


def _are_alike(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype is other.dtype


def _has_numbers(value: Any) -> bool:
    """Whether an argument is a tensor of floating numbers that PyTorch computes with, and of no more than are looked at."""
    is_floating = isinstance(value, Tensor) and value.is_floating_point() and not is_narrow(value)
    return is_floating and 1 < value.numel() <= _MOST


def structure_of(draws: Sequence[Any]) -> Structure:
    """Return what draws of one argument have in common."""
    if not all(map(_has_numbers, draws)) or len({one.shape for one in draws}) > 1:
        return Structure()
    first: Tensor = draws[0]
    fixed = reduce(torch.logical_and, (one == first for one in draws[1:]), torch.ones_like(first, dtype=torch.bool))
    has_fixed = bool(fixed.any()) and not bool(fixed.all())
    is_square = first.dim() > 1 and first.shape[-2] == first.shape[-1] > 1
    is_symmetric = is_square and all(map(_is_symmetric, draws))
    dims = [dim for dim in reversed(range(first.dim())) if first.shape[dim] > 1]
    norms = ((norm, dim) for dim in dims for norm in (1, 2))
    orders = ((dim, down) for dim in dims if first.shape[dim] > 2 for down in (False, True))
    return Structure(
        (fixed, first) if has_fixed else None,
        all(float(((one == 0) & ~fixed).float().mean()) > _MANY_ZEROS for one in draws),
        min((_nearest_to_zero(one) for one in draws), key=abs),
        _repeated(draws),
        is_symmetric,
        is_symmetric and first.numel() <= _MOST_OF_MATRICES and all(map(_is_definite, draws)),
        next((one for one in orders if all(_is_sorted(draw, *one) for draw in draws)), None),
        next((one for one in norms if all(_has_unit_norms(draw, *one) for draw in draws)), None),
        _ordered_columns(draws),
    )


def _nearest_to_zero(value: Tensor) -> float:
    least, most = map(float, torch.aminmax(value))
    return least if least > 0 else most if most < 0 else 0.0


def _is_symmetric(value: Tensor) -> bool:
    """Whether a matrix is symmetric, but for some roundings of the product that it is."""
    most = _UNITS * torch.finfo(value.dtype).eps * float(value.abs().max())
    return bool(((value - value.mT).abs() <= most).all())


def _is_sorted(value: Tensor, dim: int, down: bool) -> bool:
    for one in (_corner(value, dim), value):  # of some slices at first
        steps = one.diff(dim=dim)
        if not bool((steps <= 0 if down else steps >= 0).all()):
            return False
    return True


def _corner(value: Tensor, dim: int) -> Tensor:
    """Return some slices along a dimension: what all have in common these have."""
    return value[tuple(slice(None if one == dim % value.dim() else _CORNER) for one in range(value.dim()))]


def _repeated(draws: Sequence[Tensor]) -> tuple[tuple[int, Tensor], ...]:
    """Return the dimensions of which slices are equal in all draws, each with the first equal one of every slice.

    So are the halves of a rotary embedding's angles, and the keys of heads that share one.
    """
    found = []
    for dim, size in enumerate(draws[0].shape):
        if not 1 < size <= _FIRST or draws[0].numel() == size:
            continue
        some = torch.cat([_sampled(one, dim).reshape(size, -1) for one in draws], 1)
        _, groups = some.unique(dim=0, return_inverse=True)
        count = int(groups.max()) + 1
        if count == size:
            continue
        places = torch.arange(size, device=groups.device)
        first = torch.full((count,), size, device=groups.device).scatter_reduce(0, groups, places, "amin")[groups]
        if all(torch.equal(one.index_select(dim, first), one) for one in draws):
            found.append((dim, first))
    return tuple(found)


def _sampled(value: Tensor, dim: int) -> Tensor:
    """Return a few places of each slice along a dimension, which comes first."""
    steps = [slice(None, None, None if one == dim else -(-size // _CORNER)) for one, size in enumerate(value.shape)]
    return value[tuple(steps)].movedim(dim, 0)


def _ordered_columns(draws: Sequence[Tensor]) -> tuple[tuple[int, int], ...]:
    """Return the pairs of columns of which the second is never smaller, and mostly larger."""
    columns = draws[0].shape[-1] if draws[0].dim() else 0
    if not has_short_rows(draws[0]) or draws[0].numel() < _FEWEST_ROWS * columns:
        return ()
    rows = torch.cat([one.reshape(-1, columns) for one in draws])
    pairs = itertools.permutations(range(columns), 2)
    return tuple((a, b) for a, b in pairs if _are_ordered(rows[:, a], rows[:, b]))


def _are_ordered(one: Tensor, other: Tensor) -> bool:
    return bool((one <= other).all()) and bool((one < other).float().mean() > 0.5)


def half_of_zeros(value: Tensor) -> Callable[[Tensor], Tensor] | None:
    """Return what takes the half of a triangular matrix that is not zero; None for another one."""
    is_square = value.dim() > 1 and value.shape[-1] == value.shape[-2] > 2
    halves = (torch.tril, torch.triu) if is_square and bool(value.any()) else ()
    return next((half for half in halves if torch.equal(half(value), value)), None)


def _is_definite(value: Tensor) -> bool:
    _, failed = torch.linalg.cholesky_ex(value.to(torch.float64))
    return not bool(failed.any())


def _has_unit_norms(value: Tensor, norm: int, dim: int) -> bool:
    """Whether the slices along a dimension have the norm 1, of some at first."""
    for one in (_corner(value, dim), value):
        if norm == 1 and bool((one < 0).any()):
            return False
        lengths = torch.linalg.vector_norm(one.to(torch.float64), norm, dim=dim)
        if not bool(((lengths - 1).abs() <= max(_NEAR_ONE, _UNITS * torch.finfo(value.dtype).eps)).all()):
            return False
    return True
