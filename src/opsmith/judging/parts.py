"""Computes what a large call should give for some rows at a time, where rows do not depend on each other.

The oracle takes some twenty times the memory of a call's tensors: numbers in float64, and what roundings do to each. Whether
rows depend on each other is tried, in float64, where results of half of the rows are the same to the last digits or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from opsmith.judging.scaled import bytes_of
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.copies import upcast
from opsmith.subject.disagreement import Disagreement, Expected, compare, to_one_side

__all__ = ["Form", "InParts", "Rows", "compare_in_parts", "form_of", "parts_of", "rows_of"]

# So many rows are tried, whole and in halves, whose results differ by less than this part of what is usual in them.
_TRIED, _SAME = 8, 1e-11
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Rows:
    """The rows of a call: the arguments whose first dimension counts them, and the bytes of one, with its results."""

    names: tuple[str, ...]
    count: int
    nbytes: int

    def of(self, values: Values, some: slice) -> dict[str, Any]:
        """Return the arguments of a call of some rows."""
        return {name: value[some] if name in self.names else value for name, value in values.items()}

    def of_case(self, case: Case, some: slice) -> Case:
        """Return the case of a call of some rows."""

        def cut(recipe: TensorRecipe) -> TensorRecipe:
            shape = (len(range(self.count)[some]), *recipe.shape[1:])
            return replace(recipe, shape=shape, given=None if recipe.given is None else recipe.given[some])

        arguments = {name: cut(one) if name in self.names else one for name, one in case.arguments.items()}
        return replace(case, arguments=arguments)

    def slices(self, most_bytes: int) -> list[slice]:
        """Return parts of the rows, each of so many bytes at most, or of one row."""
        step = max(1, most_bytes // max(1, self.nbytes))
        return [slice(begin, min(begin + step, self.count)) for begin in range(0, self.count, step)]


@dataclass(frozen=True)
class Form:
    """The shape of a result, and its element type where the reference runs in it."""

    shape: tuple[int, ...]
    dtype: torch.dtype | None


@dataclass(frozen=True)
class InParts:
    """What a large call should give, for some rows at a time; each part is computed anew when it is asked for."""

    slices: Sequence[slice]
    part: Callable[[slice], Expected]
    forms: tuple[Form, ...]


def rows_of(function: Callable[[Values], Sequence[Tensor]], values: Values, names: Sequence[str]) -> Rows | None:
    """Return the rows of a call, or None where a result of a row depends on others, as far as some rows show.

    `function` returns results for arguments, of which `names` are those that may have rows.
    """
    sizes = {name: value.shape[0] for name in names if isinstance(value := values[name], Tensor) and value.dim()}
    if not sizes:
        return None
    count = max(sizes.values(), key=list(sizes.values()).count)
    alike = tuple(name for name, size in sizes.items() if size == count)
    for chosen in dict.fromkeys([alike, *((name,) for name in alike)]):
        if count > 1 and (nbytes := _bytes_of_row(function, values, chosen)):
            return Rows(chosen, count, nbytes)
    return None


def _bytes_of_row(function: Callable[[Values], Sequence[Tensor]], values: Values, names: Sequence[str]) -> int:
    """Return how many bytes a row of some arguments has, with its results; 0 where rows depend on each other."""
    some = {name: value[:_TRIED] if name in names else value for name, value in values.items()}
    count = len(some[names[0]])
    half = count // 2
    wide = upcast(some)

    def results(part: slice) -> Sequence[Tensor]:
        return function({name: value[part].clone() if name in names else value for name, value in wide.items()})

    try:
        with torch.no_grad():
            whole, *halves = [results(one) for one in (slice(0, count), slice(0, half), slice(half, count))]
            found = zip(whole, *halves, strict=True)
            if not whole or not all(_is_of_both(one, first, second) for one, first, second in found):
                return 0
            # Of a single row a `squeeze` takes the dimension away.
            if [one.shape for one in results(slice(0, 1))] != [(1, *one.shape[1:]) for one in whole]:
                return 0
            own = function(some)
    except Exception:
        return 0  # it takes no other number of rows, or does not run in float64
    read = sum(bytes_of(some[name]) for name in names)
    return (read + sum(map(bytes_of, own))) // count


def _is_of_both(whole: Tensor, first: Tensor, second: Tensor) -> bool:
    """Whether a result is that of the first half of the rows and that of the second, one behind the other."""
    both = torch.cat([first, second])
    if both.shape != whole.shape or not len(first):
        return False
    if not whole.is_floating_point():
        return torch.equal(both, whole)
    usual = float(whole.square().mean().sqrt()) if whole.numel() else 0.0
    return torch.allclose(both, whole, rtol=_SAME, atol=_SAME * usual, equal_nan=True)


def parts_of(expected: Expected | InParts) -> Iterator[tuple[slice, Expected]]:
    """Yield what is expected of rows, of all at once where it is not in parts."""
    if isinstance(expected, Expected):
        yield slice(None), expected
        return
    for rows in expected.slices:
        yield rows, expected.part(rows)


def form_of(expected: Expected | InParts) -> tuple[Form, ...]:
    """Return the form of each result."""
    if isinstance(expected, InParts):
        return expected.forms
    types = [None] * len(expected.values) if expected.own is None else [one.dtype for one in expected.own]
    return tuple(Form(tuple(one.shape), dtype) for one, dtype in zip(expected.values, types, strict=True))


def compare_in_parts(found: list[Tensor], expected: Expected | InParts) -> Disagreement | None:
    """Return the first disagreement of results with what is expected, with how many elements are wrong in all rows."""
    first: Disagreement | None = None
    wrong = 0
    for rows, part in parts_of(expected):
        results = [result[rows] if result.dim() else result for result in found]
        one = compare(results, part)
        if one is not None and not results[one.output].is_floating_point():
            one = compare(part.settled(results), part)
        one = to_one_side(results, part) if one is None else one
        if one is None:
            continue
        if isinstance(expected, Expected) or one.kind in ("shape", "dtype", "count"):
            return one
        if first is None:
            index = (one.index[0] + rows.start, *one.index[1:]) if one.index else ()
            first = replace(one, index=index, elements=found[one.output].numel())
        wrong += one.wrong if one.output == first.output else 0
    return None if first is None else replace(first, wrong=wrong)
