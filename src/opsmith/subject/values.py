"""Fills tensors with numbers of a kind: ordinary, large, special and others that some class of kernels fails at."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from opsmith.subject.placed_values import placed_values

__all__ = ["FLOAT_VALUES", "INTEGER_VALUES", "SPECIAL_VALUES", "fill", "group_of_values"]

_Make = Callable[[tuple[int, ...], torch.dtype, torch.Generator], Tensor]


def _normal(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=random, dtype=torch.float64)


def _mixed(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """Magnitudes over six decades: sums in the wrong order lose the small ones."""
    exponent = torch.rand(shape, generator=random, dtype=torch.float64) * 6 - 4
    return _signs(shape, random) * 10**exponent


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """Zeros of both signs and a few ones: kinks, divisions, and gradients at them."""
    zeros = _signs(shape, random) * 0.0
    return torch.where(torch.rand(shape, generator=random) < 0.2, _signs(shape, random), zeros)


def _tiny(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """Numbers around the smallest normal one, half of them denormal."""
    smallest = torch.finfo(dtype).smallest_normal
    return _signs(shape, random) * smallest * (torch.rand(shape, generator=random, dtype=torch.float64) * 2)


def _big(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """Of one sign and near a hundred: where exp overflows in half precision and sums leave it."""
    return 60 + 60 * torch.rand(shape, generator=random, dtype=torch.float64)


def _steep(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """Of both signs and up to a few hundred: exp overflows in single precision too."""
    return _signs(shape, random) * (1 + 400 * torch.rand(shape, generator=random, dtype=torch.float64))


def _huge(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """Between a hundredth and a half of the largest number: products overflow, sums of a few do not have to.

    In float64 as in float32: there is no wider type to compare with.
    """
    largest = math.log10(min(torch.finfo(dtype).max, torch.finfo(torch.float32).max))
    low = max(largest - 2, largest / 2)
    exponent = low + (largest - 0.31 - low) * torch.rand(shape, generator=random, dtype=torch.float64)
    return _signs(shape, random) * 10**exponent


def _loud(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """Of one sign and up to a third of the largest number: a sum of a few overflows, and their mean does not."""
    largest = min(torch.finfo(dtype).max, torch.finfo(torch.float32).max)
    return largest * (0.1 + 0.2 * torch.rand(shape, generator=random, dtype=torch.float64))


def _special(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """Ordinary numbers with NaN, inf and -inf strewn in."""
    return _strew(_normal(shape, dtype, random), (math.nan, math.inf, -math.inf), random)


def _nan(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """Ordinary numbers and NaN alone: an inf turns into NaN by itself in many formulas and would hide it."""
    return _strew(_normal(shape, dtype, random), (math.nan,), random)


def _small_integers(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """0 to 3: valid as an index or a count in most operators."""
    return torch.randint(0, 4, shape, generator=random)


def _integers(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """Of both signs, and a larger one in front, so that they are not taken for indices of a small tensor."""
    numbers = torch.randint(-9 if dtype.is_signed else 0, 100, shape, generator=random)
    numbers.view(-1)[:1] = min(1000, torch.iinfo(dtype).max)
    return numbers


def _extreme_integers(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """The smallest and largest of the type among small ones; what overflows wraps around, as in PyTorch."""
    info = torch.iinfo(dtype)
    chosen = torch.tensor([info.min, info.max, 0, 1, info.max - 1], dtype=dtype)
    numbers = chosen[torch.randint(0, len(chosen), shape, generator=random)]
    numbers.view(-1)[:1] = info.max
    return numbers


def _signs(shape: tuple[int, ...], random: torch.Generator) -> Tensor:
    return torch.randint(0, 2, shape, generator=random).to(torch.float64) * 2 - 1


def _strew(numbers: Tensor, values: tuple[float, ...], random: torch.Generator) -> Tensor:
    # The first element always, so that a tensor of one has one.
    where = torch.rand(numbers.shape, generator=random) < 0.15
    if where.numel() > 0:
        where.view(-1)[0] = True
    chosen = torch.tensor(values, dtype=torch.float64)[torch.randint(0, len(values), numbers.shape, generator=random)]
    return torch.where(where, chosen, numbers)


FLOAT_VALUES: dict[str, _Make] = {
    "normal": _normal,
    "mixed": _mixed,
    "zeros": _zeros,
    "tiny": _tiny,
    "big": _big,
    "steep": _steep,
    "huge": _huge,
    "loud": _loud,
    "nan": _nan,
    "special": _special,
}
# Those whose results are compared for being NaN or infinite more than for their digits.
SPECIAL_VALUES = ("nan", "special")
INTEGER_VALUES: dict[str, _Make] = {
    "small": _small_integers,
    "integers": _integers,
    "extremes": _extreme_integers,
}


def group_of_values(kind: str) -> str:
    """Return the group of a suite that a kind of floating-point values other than "normal" belongs to."""
    return "special" if kind in SPECIAL_VALUES else "equal" if kind == "zeros" else "values"


def fill(shape: tuple[int, ...], dtype: torch.dtype, values: str, seed: int) -> Tensor:
    """Return a contiguous tensor on the CPU with values of a kind; the same arguments give the same numbers.

    Kinds of floating-point numbers mean small integers for an integer tensor, and integers mean `normal` for a floating
    one, so that one name can be given for all tensors of a call. Bool tensors hold both values.
    """
    random = torch.Generator().manual_seed(seed)
    if (placed := placed_values(shape, dtype, values, random)) is not None:
        return placed
    if dtype is torch.bool:
        return torch.rand(shape, generator=random) < 0.5
    if dtype.is_floating_point:
        return FLOAT_VALUES.get(values, _normal)(shape, dtype, random).to(dtype)
    return INTEGER_VALUES.get(values, _small_integers)(shape, dtype, random).to(dtype)
