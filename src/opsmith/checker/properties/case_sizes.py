"""Finds calls that differ in their sizes alone: one compiled graph has to serve all of them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from opsmith.checker.properties.agreement import agrees
from opsmith.checker.properties.context import Context
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.choices_of_sizes import ALL_EQUAL

__all__ = ["MOST_SIZES", "cases_of_sizes"]

MOST_SIZES = 3
# The reference is called for each.
_MOST_OF_A_SIZE, _MOST_TRIED = 12, 40


def cases_of_sizes(context: Context) -> list[Case]:
    """Return calls of different sizes and nothing else different; the first has no size of 0 or 1.

    Of several sizes the last call changes another one than the call before it.
    """
    suite = context.subject.suite
    plain = suite.plain(context.dtypes)
    alike = (
        case
        for case in suite.cases(context.dtypes, "plain", "sizes")
        if _form(case) == _form(plain) and all(size > 1 for recipe in case.tensors().values() for size in recipe.shape)
    )
    by_size: dict[str, list[Case]] = {}
    for case in alike:
        if not case.label.startswith(ALL_EQUAL):
            by_size.setdefault(case.label.partition(" = ")[0], []).append(case)
    of_each = itertools.chain.from_iterable(listed[:_MOST_OF_A_SIZE] for listed in by_size.values())
    chosen: dict[Any, Case] = {}
    for case in itertools.islice(of_each, _MOST_TRIED):
        chosen.setdefault(tuple(recipe.shape for recipe in case.tensors().values()), case)
    found = _with_large_results(context, list(chosen.values())) or [plain]
    if len(found) == 1 and plain.group == "plain" and suite.space is None:
        found += _grown(context, plain)
    return [*found[: MOST_SIZES - 1], *found[-1:]] if len(found) >= MOST_SIZES else found


def _with_large_results(context: Context, cases: list[Case]) -> list[Case]:
    """Return the calls without those that alone have a size of 0 or 1 in a result: tracers specialize on that."""

    def shapes(case: Case) -> list[int]:
        try:
            results = context.subject.results(context.subject.reference, case.build(context.device))
        except Exception:
            return []
        return [size for result in results for size in result.shape]

    of_each = [shapes(case) for case in cases]
    usual = max(of_each, key=sum, default=[])
    return [
        case
        for case, sizes in zip(cases, of_each, strict=True)
        if len(sizes) == len(usual) and all(size > 1 or size == other for size, other in zip(sizes, usual, strict=True))
    ]


def _grown(context: Context, case: Case) -> list[Case]:
    """Return an example with each of its sizes doubled, one after the other, where the operator takes that."""
    found = []
    for size in sorted({size for recipe in case.tensors().values() for size in recipe.shape if size > 1}):
        arguments = {name: _doubled(value, size) for name, value in case.arguments.items()}
        other = Case(arguments, f"{case.label}, sizes of {size} doubled", case.group)
        if agrees(context, other):
            found.append(other)
    return found


def _doubled(value: Any, size: int) -> Any:
    if isinstance(value, tuple):
        return tuple(_doubled(item, size) for item in value)
    if not isinstance(value, TensorRecipe) or value.given is None:
        return value
    given = value.given.repeat([2 if length == size else 1 for length in value.shape])
    return replace(value, shape=tuple(given.shape), given=given)


def _form(case: Case) -> Any:
    """Return what of a case decides which graph it is: ranks and types, what is given at all, and numbers.

    Of ints only 0 and 1 do: tracers single them out.
    """
    return [(name, len(recipe.shape), recipe.dtype) for name, recipe in case.tensors().items()], [
        (name, value)
        for name, value in case.arguments.items()
        if value is None or isinstance(value, bool | str | float) or value in (0, 1)
    ]
