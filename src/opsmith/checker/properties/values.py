"""Checks that the kernel computes what the reference computes: a property for each group of the suite."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from opsmith.checker.outcome import Finding, Found, Outcome, failed, not_run, passed
from opsmith.checker.particulars import named
from opsmith.checker.process.timed_cases import TimedCases
from opsmith.checker.properties.agreement import RefusedError, disagreement, kind_of
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.longest_calls import longest_calls
from opsmith.checker.properties.may_be_refused import changed_arguments, may_be_refused
from opsmith.checker.properties.unproven import Refusal, unproven
from opsmith.checker.properties.wrong_values import describe, hint_for
from opsmith.checker.shrink import sizes_of, smallest
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.choices_of_sizes import is_full_tile
from opsmith.subject.oracle import Disagreement, compare, expect

__all__ = [
    "IN_ANY_LAYOUT",
    "arguments",
    "empty",
    "magnitude",
    "sizes",
    "special",
    "strides",
    "value",
    "wrong_value",
]

# Says that it is the numbers: a layout may make equal ones of them, as one row for all does.
IN_ANY_LAYOUT = "Contiguous tensors of the same numbers give wrong results too."


def value(context: Context) -> Outcome:
    """Ordinary values, contiguous, a few elements; and many of them equal."""
    outcome, refusals = _agree_or_refused(context, "plain", "equal")
    if outcome.state != "failed":
        return unproven(context, "take", refusals) if refusals else outcome
    # One defect has one name: results that are wrong because of an argument or a size fail under that property.
    if ignored := _ignored(context):
        return not_run(f"wrong for ordinary values because {ignored} is ignored: see `arguments`")
    if _depends_on_size(context):
        return not_run("wrong only for some sizes: see `sizes`")
    return outcome


def magnitude(context: Context) -> Outcome:
    """Values whose sums, products and exponentials leave the element type."""
    return _agree(context, "values")


def special(context: Context) -> Outcome:
    """NaN and infinities arrive where the reference has them."""
    return _agree(context, "special")


def sizes(context: Context) -> Outcome:
    """Sizes around the widths of vectors, warps and blocks, and one large enough for every path."""
    if _depends_on_size(context):
        return _agree(context, "plain", "sizes")
    outcome, refusals = _agree_or_refused(context, "sizes", "large")
    if not refusals:
        return _with_longest(context, outcome)
    # Examples of several sizes are what there is to try.
    given = list(context.subject.suite.given(context.dtypes))
    shapes = {tuple(recipe.shape for recipe in case.tensors().values()) for case in given}
    of_examples, compared, _ = _compare(context, given, True) if len(shapes) > 1 else (outcome, 0, [])
    if compared == 0:
        return unproven(context, "take", refusals)
    return replace(of_examples, note="the reference rejects all generated sizes; the examples' are compared")


def _with_longest(context: Context, outcome: Outcome) -> Outcome:
    """Return the outcome with that of calls of a million elements."""
    if outcome.state != "passed" or outcome.left_out:
        return outcome
    tried, doubtful = longest_calls(context)
    longest, _, _ = _compare(context, doubtful, False)
    return longest if longest.state == "failed" else replace(outcome, inputs=outcome.inputs + tried)


def empty(context: Context) -> Outcome:
    """Sizes of zero: no crash, and results of the right size."""
    return _agree(context, "empty")


def strides(context: Context) -> Outcome:
    """The same values in another layout give the same results."""
    outcome = _agree(context, "layouts")
    case = outcome.findings[0].case if outcome.state == "failed" else None
    if case is None or not _is_wrong(context, _contiguous(case)):
        return outcome
    finding = outcome.findings[0]
    return replace(outcome, findings=(replace(finding, message=f"{finding.message} {IN_ANY_LAYOUT}", hint=""),))


def _contiguous(case: Case) -> Case:
    """Return the case with the numbers that its layouts give it, such as equal rows, and all tensors contiguous."""

    def contiguous(value: Any) -> Any:
        if isinstance(value, TensorRecipe):
            return replace(value, given=value.build("cpu"), layout="contiguous")
        return tuple(map(contiguous, value)) if isinstance(value, tuple) else value

    return replace(case, arguments={name: contiguous(value) for name, value in case.arguments.items()})


def arguments(context: Context) -> Outcome:
    """Optional tensors left out, flags the other way, lists of another length."""
    if ignored := _ignored(context):
        case = context.subject.suite.plain(context.dtypes)
        message = f"{ignored} is ignored: the results equal those without it"
        return failed(Finding(message, case, "Read the argument in the kernel."))
    return _agree(context, "scalars")


def _agree(context: Context, *groups: str) -> Outcome:
    return _agree_or_refused(context, *groups)[0]


def _agree_or_refused(context: Context, *groups: str) -> tuple[Outcome, list[Refusal]]:
    """Return the outcome of some groups, and what the reference refused where that was all that was tried."""
    suite = context.subject.suite
    is_for_all = context.thorough or context.is_main_type
    cases = (case for case in suite.cases(context.dtypes, *groups) if is_for_all or not is_full_tile(case.label))
    outcome, compared, refused = _compare(context, cases, "plain" in groups)
    if outcome.state == "failed" or compared > len(refused):
        return outcome, []
    # Where the reference takes little of what is generated, the examples show what it does take.
    others = [*suite.varied(context.dtypes, *groups), *(_even(context) if "plain" in groups and not compared else ())]
    varied, of_examples, more = _compare(context, others, "plain" in groups)
    if varied.state == "failed" or (of_examples and not compared):
        return varied, []
    if compared:
        return replace(outcome, inputs=outcome.inputs + varied.inputs), []
    # Where inputs were left out, there may have been time for none that it takes.
    return outcome, [] if context.is_limited or outcome.left_out else [*refused, *more]


def _even(context: Context) -> list[Case]:
    """Return a call with sizes that are powers of two, for a reference that refuses odd ones."""
    even = context.subject.suite.even(context.dtypes, "normal", context.subject.seed)
    return [] if even is None else [even]


def _compare(context: Context, cases: Iterable[Case], with_plain: bool) -> tuple[Outcome, int, list[Refusal]]:
    """Return the outcome of cases, how many the reference took, and those that it refused.

    `with_plain` says that plain ones are among them.
    """
    compared, declined = 0, 0
    elsewhere: list[Case] = []
    refused: list[Refusal] = []
    notes: set[str] = set()
    timed = TimedCases(context, cases)
    for case in timed:
        try:
            wrong = disagreement(context, case, notes)
        except RefusedError as error:
            refused.append(Refusal(case, error))
            continue
        if isinstance(wrong, Exception) and may_be_refused(context, case):
            declined += 1
            continue
        compared += 1
        if wrong is None:
            continue
        if case.base is not None and not with_plain and _is_wrong(context, case.base):
            elsewhere.append(case)
            continue
        return _found(context, case, wrong, compared), compared, refused
    if compared == 0:
        if declined and not refused:
            return not_run(f"the kernel rejects all of {declined} inputs of this kind, which it may"), 0, refused
        why = not_run(_why_nothing(len(refused), timed.left_out))
        return replace(why, left_out=timed.left_out), 0, refused
    if elsewhere:
        ordinary = "ordinary ones: see `value`"
        if all(case.has_options for case in elsewhere):
            ordinary = "ordinary ones with the same arguments: see `arguments` and `sizes`"
        reason = f"{len(elsewhere)} of {compared} inputs give wrong values, and so do {ordinary}"
        return not_run(reason), compared, refused
    if refused:
        notes.add(f"the reference rejected {len(refused)} of {len(refused) + compared} inputs")
    if declined:
        notes.add(f"the kernel rejected {declined} with other numbers or sizes, which it may")
    passing = passed(
        compared, refused=len(refused), left_out=timed.left_out, note="; ".join(sorted(notes, reverse=True))
    )
    return passing, compared, refused


def wrong_value(context: Context, case: Case) -> str:
    """Return what is wrong with one call, named by what is particular about it, or ""."""
    try:
        wrong = disagreement(context, case)
    except RefusedError:
        return ""
    return "" if wrong is None else _named(context, case, wrong)


def _named(context: Context, case: Case, wrong: Disagreement | Exception) -> str:
    return named(case, f"{describe(context, wrong)}.", sizes_of(case, context))


def _found(context: Context, case: Case, wrong: Disagreement | Exception, inputs: int) -> Outcome:
    """Return the failure that a case shows, at the smallest case that shows it too."""
    finding = Finding(_named(context, case, wrong), case, hint_for(context, case, wrong))
    context.tell(Found(failed(finding, inputs=inputs)))
    small = smallest(context, case, partial(_fails_alike, context, kind_of(wrong)))
    if small == case:
        return failed(finding, inputs=inputs)
    again = disagreement(context, small)
    seen = f" First seen with: {case.label}." if case.label else ""
    message = f"{_named(context, small, again if again is not None else wrong)}{seen}"
    return failed(Finding(message, small, hint_for(context, small, again), first=case), inputs=inputs)


def _why_nothing(refused: int, left_out: int) -> str:
    if left_out:
        return f"the reference rejects {refused} inputs of this kind, and there was no time for {left_out} more"
    return "the reference rejects every input of this kind" if refused else "no input of this kind"


def _is_wrong(context: Context, case: Case) -> bool:
    try:
        return disagreement(context, case) is not None
    except RefusedError:
        return False


def _depends_on_size(context: Context) -> bool:
    """Whether the kernel is wrong for ordinary sizes, and right for powers of two however often it is tried."""
    suite = context.subject.suite
    wrong = next((case for case in suite.cases(context.dtypes, "plain") if _is_wrong(context, case)), None)
    if wrong is None:
        return False
    values = next(("integers" for recipe in wrong.tensors().values() if recipe.values == "integers"), "normal")
    even = [suite.even(context.dtypes, values, seed) for seed in (1, 2, 3)]
    try:
        if not all(case is not None and disagreement(context, case) is None for case in even):
            return False
    except RefusedError:
        return False
    # In half precision ties come up among ordinary numbers too.
    ties = suite.even(context.dtypes, "ties", 1)
    return ties is None or not _is_wrong(context, ties)


def _ignored(context: Context) -> str:
    """Return the optional argument without which the reference gives what a wrong kernel gives with it, or ""."""
    suite = context.subject.suite
    if suite.space is None or not _is_wrong(context, plain := suite.plain(context.dtypes)):
        return ""
    values = plain.build(context.device)
    for case in suite.cases(context.dtypes, "scalars"):
        changed = changed_arguments(case, plain)
        if len(changed) != 1:
            continue
        try:
            expected = expect(context.subject, plain, {**values, changed[0]: case.arguments[changed[0]]})
            context.tell(plain)
            if compare(context.subject.kernel_results(plain.build(context.device)), expected) is None:
                return changed[0]
        except Exception:
            continue
    return ""


def _fails_alike(context: Context, kind: str, case: Case) -> bool:
    try:
        wrong = disagreement(context, case)
    except RefusedError:
        return False
    return wrong is not None and kind_of(wrong) == kind
