"""Checks that one tensor may be given as two arguments, as in attention of a tensor with itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from opsmith.checker.calls import accepted, accepts, quiet
from opsmith.checker.outcome import Finding
from opsmith.checker.properties.agreement import RefusedError, agrees, judged
from opsmith.checker.properties.context import Context
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.oracle import Disagreement, expect

__all__ = ["wrong_for_one_tensor"]

# Results of a race are right at one time, or wrong in one way, and otherwise at another: so many calls of both kinds have to
# say the same.
_TIMES = 5
_HINT = "A kernel may not conclude anything from two arguments at one address: they are read as any others."


def wrong_for_one_tensor(context: Context) -> tuple[Finding | None, int]:
    """Return a finding if results are wrong where two arguments are one tensor, and right for two equal ones.

    The number is how many calls were compared.
    """
    count = 0
    for case, one, other in _cases(context):
        if not accepts(context, case) or not agrees(context, case):
            continue
        try:
            wrong = _wrong_for_one(context, case, one, other)
        except RefusedError:
            continue
        count += 1
        if wrong is not None and _is_due_to_it(context, case, one, other, wrong):
            words = f"{case.label}: with one tensor as {one} and as {other}, and not with two equal ones, "
            words += f"it raises {wrong}" if isinstance(wrong, Exception) else f"{wrong}"
            return Finding(words, replace(case, one_tensor=(one, other)), _HINT), count
    return None, count


def _wrong_for_one(context: Context, case: Case, one: str, other: str) -> Disagreement | Exception | None:
    """Return what is wrong with a call in which two arguments are one tensor; raises RefusedError."""
    expected = expect(context.subject, case, case.build(context.device))
    values = replace(case, one_tensor=(one, other)).build(context.device)
    context.tell(case)
    with quiet():
        try:
            found = context.subject.kernel_results(values)
        except Exception as error:
            return error
    return judged(found, expected)


def _is_due_to_it(context: Context, case: Case, one: str, other: str, wrong: Disagreement | Exception) -> bool:
    """Whether calls with one tensor stay wrong in the same way, and those with two equal ones right.

    Two that are read are in nobody's way. What reads one of them in the other's time may show a race that it does not make.
    """
    return all(
        agrees(context, case) and str(_wrong_for_one(context, case, one, other)) == str(wrong) for _ in range(_TIMES)
    )


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
                yield replace(case, arguments={**case.arguments, other: first}, one_tensor=()), one, other
