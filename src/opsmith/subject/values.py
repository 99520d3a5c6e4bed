"""Fills tensors with numbers of a kind: ordinary, large, special and others that some class of kernels fails at."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor

from opsmith.subject.placed_values import placed_values

__all__ = [
    "FLOAT_VALUES",
    "INTEGER_VALUES",
    "ROWS_OF_VALUES",
    "SPECIAL_VALUES",
    "beyond_bits",
    "fill",
    "first_integers",
    "group_of_values",
    "numbers_of_ties",
]

_TIES = (0.5, -1.0, 1.0, -0.5, 0.0, 2.5, -1.5, 2.0, 1.5, -2.0, 3.0, -2.5, 6.0, -3.0, 3.5, -0.0, 4.0, -3.5, -6.0, 8.0)
_AT_A_TIME = 1 << 26  # elements, where none's number depends on its place
_Make = Callable[[tuple[int, ...], torch.dtype, torch.Generator], Tensor]


def _normal(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=random, dtype=torch.float64)


def _mixed(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """Magnitudes over six decades: sums in the wrong order lose the small ones."""
    exponent = torch.rand(shape, generator=random, dtype=torch.float64) * 6 - 4
    return _signs(shape, random) * 10**exponent


def _faint(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """Small, but far from denormal, cubes included: 1 + x is 1, and what is made by way of it has no digits."""
    smallest = math.log10(max(torch.finfo(dtype).smallest_normal, torch.finfo(torch.float32).smallest_normal))
    exponent = smallest / 3 - smallest * 5 / 24 * torch.rand(shape, generator=random, dtype=torch.float64)
    return _signs(shape, random) * 10**exponent


def _ties(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """Integers and halves: ties of rounding and of comparisons, and the bounds of many an interval."""
    return _shuffled(_TIES, shape, random)


def _ties_near(near: tuple[float, ...], shape: tuple[int, ...], random: torch.Generator) -> Tensor:
    """The same, every second one from some numbers."""
    return _shuffled(numbers_of_ties(near), shape, random)


def numbers_of_ties(near: tuple[float, ...] = ()) -> tuple[float, ...]:
    """Return the numbers that ties are among, every second one from some others, if there are any."""
    halves = _TIES * (1 + len(near) // len(_TIES))
    numbers = [number for pair in zip(near, halves, strict=False) for number in pair]
    return (*numbers, *halves[len(near) :])


def _shuffled(numbers: tuple[float, ...], shape: tuple[int, ...], random: torch.Generator) -> Tensor:
    """Return all of some numbers, as far as there is room, in any order; few elements have the first ones."""
    count = math.prod(shape)
    repeated = torch.tensor(numbers, dtype=torch.float64).repeat(1 + count // len(numbers))[:count]
    return repeated[torch.randperm(count, generator=random)].reshape(shape)


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """Zeros of both signs and a few ones: kinks, divisions, and gradients at them. Of several rows the first has no ones."""
    zeros = _signs(shape, random) * 0.0
    is_one = torch.rand(shape, generator=random) < 0.2
    if len(shape) > 1 and is_one.numel() > shape[-1]:
        is_one.view(-1, shape[-1])[0] = False
    return torch.where(is_one, _signs(shape, random), zeros)


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


def _rows(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """Rows that are -inf or NaN throughout, or nearly so, or all equal; of a vector, -inf throughout."""
    numbers = _normal(shape, dtype, random)
    if numbers.dim() < 2:
        return torch.full_like(numbers, -math.inf)
    return _fill_rows(numbers)


def _columns(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """The same by the first dimension; of a vector, one finite number among -inf."""
    numbers = _normal(shape, dtype, random)
    if numbers.dim() < 2:
        return torch.where(torch.arange(numbers.numel()).reshape(shape) == 1, numbers, -math.inf)
    return _fill_rows(numbers.transpose(0, -1).contiguous()).transpose(0, -1).contiguous()


def _fill_rows(numbers: Tensor) -> Tensor:
    rows = numbers.reshape(-1, numbers.shape[-1]) if numbers.numel() > 0 else numbers.new_zeros(0, 1)
    middle = rows.shape[-1] // 2
    for index, row in enumerate(rows):
        match index % 7:
            case 0:
                row.fill_(-math.inf)
            case 1:
                kept = row[middle].clone()
                row.fill_(-math.inf)
                row[middle] = kept
            case 2:
                row.fill_(math.nan)
            case 3:
                row[middle] = math.inf
            case 4:
                row.fill_(row[middle].item())
            case 5:
                row.fill_(math.inf)
            case _:
                row[-1] = -math.inf
    return rows.reshape(numbers.shape)


def _small_integers(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """0 to 3: valid as an index or a count in most operators."""
    return torch.randint(0, 4, shape, generator=random)


def _integers(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """Of both signs, and a larger one in front, so that they are not taken for indices of a small tensor.

    Even and odd negative ones are always among them: divisions and shifts round them in different ways.
    """
    numbers = torch.randint(-99 if dtype.is_signed else 0, 100, shape, generator=random)
    first = torch.tensor(first_integers(dtype))
    flat = numbers.view(-1)
    flat[: len(first)] = first[: len(flat)]
    return numbers


def first_integers(dtype: torch.dtype) -> list[int]:
    """Return what the kind `integers` begins with."""
    return [min(1000, torch.iinfo(dtype).max), *((-1, -2, -3) if dtype.is_signed else ())]


def _extreme_integers(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """The smallest and largest of the type among small ones; what overflows wraps around, as in PyTorch."""
    info = torch.iinfo(dtype)
    chosen = torch.tensor([info.min, info.max, 0, 1, info.max - 1], dtype=dtype)
    numbers = chosen[torch.randint(0, len(chosen), shape, generator=random)]
    numbers.view(-1)[:1] = info.max
    return numbers


def _wide_integers(shape: tuple[int, ...], dtype: torch.dtype, random: torch.Generator) -> Tensor:
    """Small ones, and ones of which 16 or 32 bits are a small one: an index of fewer bits takes another element."""
    beyond = torch.tensor(beyond_bits(dtype))
    numbers = beyond[torch.randint(0, len(beyond), shape, generator=random)]
    numbers = numbers + torch.randint(0, 4, shape, generator=random)
    numbers.view(-1)[:1] = beyond[-1] + 1
    return numbers


def beyond_bits(dtype: torch.dtype) -> list[int]:
    """Return what the kind `wide` adds to small integers."""
    return [0, *(number for number in (1 << 16, 1 << 32) if number < torch.iinfo(dtype).max)]


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
    "ties": _ties,
    "faint": _faint,
    "tiny": _tiny,
    "big": _big,
    "steep": _steep,
    "huge": _huge,
    "loud": _loud,
    "nan": _nan,
    "special": _special,
    "rows": _rows,
    "columns": _columns,
}
# Of several tensors one at a time has rows of special values: what is left of two is chance.
ROWS_OF_VALUES = ("rows", "columns")
# Those whose results are compared for being NaN or infinite more than for their digits.
SPECIAL_VALUES = ("nan", "special", *ROWS_OF_VALUES)
# Those at which functions jump or have kinks, and at which exact inputs have exact answers.
_EQUAL_VALUES = ("zeros", "ties")
INTEGER_VALUES: dict[str, _Make] = {
    "small": _small_integers,
    "integers": _integers,
    "extremes": _extreme_integers,
    "wide": _wide_integers,
}


def group_of_values(kind: str) -> str:
    """Return the group of a suite that a kind of floating-point values other than "normal" belongs to."""
    return "special" if kind in SPECIAL_VALUES else "equal" if kind in _EQUAL_VALUES else "values"


def fill(
    shape: tuple[int, ...],
    dtype: torch.dtype,
    values: str,
    seed: int,
    near: tuple[float, ...] = (),
    device: torch.device | str = "cpu",
) -> Tensor:
    """Return a contiguous tensor on a device with values of a kind; the same arguments give the same numbers.

    Kinds of floating-point numbers mean small integers for an integer tensor, and integers mean `normal` for a floating
    one, so that one name can be given for all tensors of a call. Bool tensors hold both values. `near` are numbers that
    ties lie at too, such as the call's other arguments.
    """
    random = torch.Generator(device).manual_seed(seed)
    # Everything here is made where the generator is, whatever a user's default is.
    with torch.device(device) if random.device != torch.get_default_device() else nullcontext():
        return _filled(shape, dtype, values, random, near)


def _filled(
    shape: tuple[int, ...], dtype: torch.dtype, values: str, random: torch.Generator, near: tuple[float, ...]
) -> Tensor:
    if (placed := placed_values(shape, dtype, values, random)) is not None:
        return placed
    if math.prod(shape) > _AT_A_TIME and values not in ROWS_OF_VALUES:
        return _filled_in_pieces(shape, dtype, values, random, near)
    if dtype is torch.bool:
        return torch.rand(shape, generator=random) < 0.5
    if dtype.is_floating_point:
        if near and values == "ties":
            return _ties_near(near, shape, random).to(dtype)
        return FLOAT_VALUES.get(values, _normal)(shape, dtype, random).to(dtype)
    return INTEGER_VALUES.get(values, _small_integers)(shape, dtype, random).to(dtype)


def _filled_in_pieces(
    shape: tuple[int, ...], dtype: torch.dtype, values: str, random: torch.Generator, near: tuple[float, ...]
) -> Tensor:
    """Draw so many elements at a time: in float64 and before they are shuffled they take many times their memory."""
    found = torch.empty(shape, dtype=dtype)
    for piece in found.view(-1).split(_AT_A_TIME):
        piece.copy_(_filled((piece.numel(),), dtype, values, random, near))
    return found
