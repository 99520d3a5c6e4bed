"""Checks that one tensor may be given as two arguments, as in attention of a tensor with itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

from torch import Tensor

from opsmith.checker.calls import accepted, accepts, kernel_outputs, quiet
from opsmith.checker.outcome import Finding
from opsmith.checker.properties.agreement import RefusedError, agrees, judged
from opsmith.checker.properties.context import Context
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.oracle import expect

__all__ = ["wrong_for_one_tensor"]

_HINT = "A kernel may not conclude anything from two arguments at one address: they are read as any others."


def wrong_for_one_tensor(context: Context) -> tuple[Finding | None, int]:
    """Return a finding if results are wrong where two arguments are one tensor, and right for two equal ones.

    The number is how many calls were compared.
    """
    count = 0
    for case, one, other in _cases(context):
        if not accepts(context, case) or not agrees(context, case):
            continue
        values = case.build(context.device)
        expected = expect(context.subject, case, values)
        values[other] = values[one]
        context.tell(case)
        with quiet():
            try:
                found: list[Tensor] | Exception = kernel_outputs(context.subject, values)
            except Exception as error:
                found = error
        try:
            wrong: Any = found if isinstance(found, Exception) else judged(found, expected)
        except RefusedError:
            continue
        count += 1
        if wrong is not None:
            words = f"{case.label}: with one tensor as {one} and as {other}, and not with two equal ones, "
            words += f"it raises {wrong}" if isinstance(wrong, Exception) else f"{wrong}"
            return Finding(words, case, _HINT), count
    return None, count


def _cases(context: Context) -> Iterator[tuple[Case, str, str]]:
    """Yield calls in which two arguments have the same numbers, with the names of both."""
    subject = context.subject
    plain = list(accepted(context, "plain"))
    even = subject.suite.even(context.dtypes, "normal", subject.seed)
    for case in plain if even is None else [*plain, replace(even, label="equal sizes")]:
        recipes = {name: value for name, value in case.arguments.items() if isinstance(value, TensorRecipe)}
        for one, other in combinations(recipes, 2):
            if {one, other} & set(subject.mutated):
                continue
            first, second = recipes[one], recipes[other]
            if (first.shape, first.dtype) == (second.shape, second.dtype):
                yield replace(case, arguments={**case.arguments, other: first}), one, other
