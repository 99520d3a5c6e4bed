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
    "Structure",
    "has_few_numbers",
    "has_short_rows",
    "is_choice",
    "is_narrow",
    "like_example",
    "may_be_scaled",
    "structure_of",
    "structures_of",
    "with_structure",
]

# Numbers of which there are so few are a choice, such as a mask of zeros and ones, and stay what they are.
FEW = 16
# So many draws show what all have in common.
_DRAWS = 3
# So many numbers are looked at first, and of larger tensors none: that takes seconds. Matrices are factorized up to a size.
_FIRST, _MOST, _MOST_OF_MATRICES = 1 << 12, 1 << 25, 1 << 20
# Fewer numbers of an example are in order by chance.
_FEWEST_SORTED = 5
# The columns of so many may be in an order, as the corners of boxes are; of so few rows they are so by chance.
_SHORT, _FEWEST_ROWS = 8, 16
# How far from 1 a norm is that has been made 1 in float32, and in units of a coarser type.
_NEAR_ONE, _UNITS = 1e-4, 8


@dataclass(frozen=True)
class Structure:
    """What all draws of a tensor have in common.

    `fixed` are the places where all have the same number, as a mask, and these numbers. All are symmetric, or positive
    definite as well, or sorted along the last dimension, in which the sum of rows is 1 (`unit_norm` is 1, and none is
    negative) or their length (2). Of pairs of `ordered` columns the second is nowhere smaller.
    """

    fixed: tuple[Tensor, Tensor] | None = None
    is_symmetric: bool = False
    is_definite: bool = False
    is_sorted: bool = False
    unit_norm: int = 0
    ordered: tuple[tuple[int, int], ...] = ()

    def __bool__(self) -> bool:
        has_rows = self.is_sorted or self.unit_norm > 0 or bool(self.ordered)
        return self.fixed is not None or self.is_symmetric or has_rows

    @property
    def is_scalable(self) -> bool:
        """Whether the numbers times any factor have it too."""
        if self.fixed is None:
            return self.unit_norm == 0
        places, numbers = self.fixed
        return self.unit_norm == 0 and bool((numbers[places] == 0).all())


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
    return value.dim() > 1 and value.shape[-1] <= _SHORT


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
    return {name: structure_of([one[name] for one in draws]) for name in draws[0]}


def structure_of(draws: Sequence[Any]) -> Structure:
    """Return what draws of one argument have in common."""
    if not all(isinstance(one, Tensor) and one.is_floating_point() and 1 < one.numel() <= _MOST for one in draws):
        return Structure()
    first: Tensor = draws[0]
    if len({one.shape for one in draws}) > 1 or is_narrow(first):
        return Structure()
    fixed = reduce(torch.logical_and, (one == first for one in draws[1:]), torch.ones_like(first, dtype=torch.bool))
    has_fixed = bool(fixed.any()) and not bool(fixed.all())
    last = first.shape[-1]
    is_square = first.dim() > 1 and first.shape[-2] == last > 1
    is_symmetric = is_square and all(torch.equal(one, one.mT) for one in draws)
    return Structure(
        (fixed, first) if has_fixed else None,
        is_symmetric,
        is_symmetric and first.numel() <= _MOST_OF_MATRICES and all(map(_is_definite, draws)),
        last > 2 and all(bool((one.diff(dim=-1) >= 0).all()) for one in draws),
        next((norm for norm in (1, 2) if last > 1 and all(_has_unit_rows(one, norm) for one in draws)), 0),
        _ordered_columns(draws),
    )


def _ordered_columns(draws: Sequence[Tensor]) -> tuple[tuple[int, int], ...]:
    """Return the pairs of columns of which the second is never smaller, and mostly larger."""
    columns = draws[0].shape[-1]
    if not has_short_rows(draws[0]) or draws[0].numel() < _FEWEST_ROWS * columns:
        return ()
    rows = torch.cat([one.reshape(-1, columns) for one in draws])
    pairs = itertools.permutations(range(columns), 2)
    return tuple((a, b) for a, b in pairs if _are_ordered(rows[:, a], rows[:, b]))


def _are_ordered(one: Tensor, other: Tensor) -> bool:
    return bool((one <= other).all()) and bool((one < other).float().mean() > 0.5)


def like_example(value: Tensor, example: Tensor, factor: float) -> Tensor:
    """Return other numbers with the structure that an example has by itself: a definite one is it times a factor."""
    if is_narrow(example):
        return value
    known = structure_of([example])
    if known.is_definite:
        return example * factor
    if known.is_sorted and example.shape[-1] < _FEWEST_SORTED:
        known = replace(known, is_sorted=False)
    is_square = example.dim() > 1 and example.shape[-1] == example.shape[-2] > 2
    for half in (torch.tril, torch.triu) if is_square and bool(example.any()) else ():
        if torch.equal(half(example), example):
            outside = half(torch.ones_like(example, dtype=torch.bool)).logical_not()
            known = replace(known, fixed=(outside, torch.zeros_like(example)))
    return _structured(value, example, known) if known else value


def _is_definite(value: Tensor) -> bool:
    _, failed = torch.linalg.cholesky_ex(value.to(torch.float64))
    return not bool(failed.any())


def _has_unit_rows(value: Tensor, norm: int) -> bool:
    if norm == 1 and bool((value < 0).any()):
        return False
    lengths = torch.linalg.vector_norm(value.to(torch.float64), norm, dim=-1)
    return bool(((lengths - 1).abs() <= max(_NEAR_ONE, _UNITS * torch.finfo(value.dtype).eps)).all())


def with_structure(values: Mapping[str, Any], old: Mapping[str, Any], known: Mapping[str, Structure]) -> dict[str, Any]:
    """Return arguments with the structure of their tensors, as far as they are others than `old`."""
    return {
        name: _structured(value, old[name], known[name]) if value is not old[name] and known.get(name) else value
        for name, value in values.items()
    }


def _structured(value: Tensor, old: Tensor, known: Structure) -> Tensor:
    if known.is_definite:
        # No other is near: the task's own numbers, as large as the others are.
        factor = float(value.to(torch.float64).abs().mean() / old.to(torch.float64).abs().mean())
        return old * factor
    if known.is_symmetric:
        value = value.triu() + value.triu(1).mT
    if known.fixed is not None:
        places, numbers = known.fixed
        value = torch.where(places.to(value.device), numbers.to(value), value)
    if known.unit_norm:
        value = _with_unit_rows(value, old, known.unit_norm)
    if known.is_sorted:
        return value.sort(-1).values
    for one, other in known.ordered:
        least, most = (choose(value[..., one], value[..., other]) for choose in (torch.minimum, torch.maximum))
        value = value.clone()
        value[..., one], value[..., other] = least, most
    return value


def _with_unit_rows(value: Tensor, old: Tensor, norm: int) -> Tensor:
    wide = value.to(torch.float64)
    wide = wide.abs() if norm == 1 else wide
    lengths = torch.linalg.vector_norm(wide, norm, dim=-1, keepdim=True)
    return torch.where(lengths.isfinite() & (lengths > 0), (wide / lengths).to(value.dtype), old.to(value.device))
