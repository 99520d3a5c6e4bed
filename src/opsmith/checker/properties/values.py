"""Checks that the kernel computes what the reference computes: a property for each group of the suite."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from opsmith.checker.outcome import Finding, Found, Outcome, failed, not_run, passed
from opsmith.checker.particulars import named
from opsmith.checker.process.timed_cases import TimedCases
from opsmith.checker.properties.agreement import RefusedError, disagreement, kind_of
from opsmith.checker.properties.context import Context
from opsmith.checker.shrink import sizes_of, smallest
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.oracle import Disagreement, compare, expect

__all__ = [
    "arguments",
    "empty",
    "magnitude",
    "sizes",
    "special",
    "strides",
    "value",
    "wrong_value",
]


def value(context: Context) -> Outcome:
    """Ordinary values, contiguous, a few elements; and many of them equal."""
    outcome = _agree(context, "plain", "equal")
    if outcome.state != "failed":
        return outcome
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
    return _agree(context, "sizes", "large")


def empty(context: Context) -> Outcome:
    """Sizes of zero: no crash, and results of the right size."""
    return _agree(context, "empty")


def strides(context: Context) -> Outcome:
    """The same values in another layout give the same results."""
    return _agree(context, "layouts")


def arguments(context: Context) -> Outcome:
    """Optional tensors left out, flags the other way, lists of another length."""
    if ignored := _ignored(context):
        case = context.subject.suite.plain(context.dtypes)
        message = f"{ignored} is ignored: the results equal those without it"
        return failed(Finding(message, case, "Read the argument in the kernel."))
    return _agree(context, "scalars")


def _agree(context: Context, *groups: str) -> Outcome:
    suite = context.subject.suite
    outcome, compared = _compare(context, suite.cases(context.dtypes, *groups), "plain" in groups)
    if compared:
        return outcome
    varied, compared = _compare(context, suite.varied(context.dtypes, *groups), "plain" in groups)
    return varied if compared else outcome


def _compare(context: Context, cases: Iterable[Case], with_plain: bool) -> tuple[Outcome, int]:
    """Return the outcome of cases, and how many the reference took; `with_plain` says that plain ones are among them."""
    compared, refused, elsewhere = 0, 0, 0
    timed = TimedCases(context, cases)
    for case in timed:
        try:
            wrong = disagreement(context, case)
        except RefusedError:
            refused += 1
            continue
        compared += 1
        if wrong is None or (isinstance(wrong, Exception) and _is_other_number(case)):
            continue
        if case.base is not None and not with_plain and _is_wrong(context, case.base):
            elsewhere += 1
            continue
        return _found(context, case, wrong, compared), compared
    if compared == 0:
        return not_run(_why_nothing(refused, timed.left_out)), 0
    if elsewhere:
        reason = f"{elsewhere} of {compared} inputs give wrong values, and so do ordinary ones: see `value`"
        return not_run(reason), compared
    note = f"the reference rejected {refused} of {refused + compared} inputs" if refused else ""
    return passed(compared, refused=refused, left_out=timed.left_out, note=note), compared


def wrong_value(context: Context, case: Case) -> str:
    """Return what is wrong with one call, named by what is particular about it, or ""."""
    try:
        wrong = disagreement(context, case)
    except RefusedError:
        return ""
    return "" if wrong is None else _named(context, case, wrong)


def _named(context: Context, case: Case, wrong: Disagreement | Exception) -> str:
    return named(case, f"{_describe(context, wrong)}.", sizes_of(case, context))


def _found(context: Context, case: Case, wrong: Disagreement | Exception, inputs: int) -> Outcome:
    """Return the failure that a case shows, at the smallest case that shows it too."""
    finding = Finding(_named(context, case, wrong), case, _hint(context, case, wrong))
    context.tell(Found(failed(finding, inputs=inputs)))
    small = smallest(context, case, partial(_fails_alike, context, kind_of(wrong)))
    if small == case:
        return failed(finding, inputs=inputs)
    again = disagreement(context, small)
    seen = f" First seen with: {case.label}." if case.label else ""
    message = f"{_named(context, small, again if again is not None else wrong)}{seen}"
    return failed(Finding(message, small, _hint(context, small, again), first=case), inputs=inputs)


def _why_nothing(refused: int, left_out: int) -> str:
    if left_out:
        return f"the reference rejects {refused} inputs of this kind, and there was no time for {left_out} more"
    return "the reference rejects every input of this kind" if refused else "no input of this kind"


def _is_other_number(case: Case) -> bool:
    """Whether a case has another number than the default, which the kernel may refuse: its meaning is not known."""
    if case.group != "scalars" or case.base is None:
        return False
    changed = [value for name, value in case.arguments.items() if _differs(value, case.base.arguments[name])]
    numbers = [item for value in changed for item in (value if isinstance(value, tuple) else (value,))]
    return any(isinstance(number, int) and not isinstance(number, bool) for number in numbers)


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
        return all(case is not None and disagreement(context, case) is None for case in even)
    except RefusedError:
        return False


def _ignored(context: Context) -> str:
    """Return the optional argument without which the reference gives what a wrong kernel gives with it, or ""."""
    suite = context.subject.suite
    if suite.space is None or not _is_wrong(context, plain := suite.plain(context.dtypes)):
        return ""
    values = plain.build(context.device)
    for case in suite.cases(context.dtypes, "scalars"):
        changed = [name for name, value in case.arguments.items() if _differs(value, plain.arguments[name])]
        if len(changed) != 1:
            continue
        try:
            expected = expect(context.subject, plain, {**values, changed[0]: case.arguments[changed[0]]})
            context.tell(plain)
            if compare(context.subject.results(context.subject.kernel, plain.build(context.device)), expected) is None:
                return changed[0]
        except Exception:
            continue
    return ""


def _differs(one: Any, other: Any) -> bool:
    """Whether arguments differ beyond the numbers in a tensor."""
    if isinstance(one, TensorRecipe) and isinstance(other, TensorRecipe):
        return one.shape != other.shape
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return any(map(_differs, one, other))
    return bool(one != other)


def _fails_alike(context: Context, kind: str, case: Case) -> bool:
    try:
        wrong = disagreement(context, case)
    except RefusedError:
        return False
    return wrong is not None and kind_of(wrong) == kind


def _describe(context: Context, wrong: Disagreement | Exception) -> str:
    if isinstance(wrong, Exception):
        return f"it raises {type(wrong).__name__} where the reference does not: {str(wrong).splitlines()[0][:300]}"
    signature = context.subject.signature
    names = [output.name for output in signature.outputs] if signature is not None else []
    names += context.subject.mutated
    known = wrong.output < len(names) and len(names) == len(set(names))
    return str(wrong).replace(f"output {wrong.output}", names[wrong.output], 1) if known else str(wrong)


def _hint(context: Context, case: Case, wrong: Disagreement | Exception | None) -> str:
    if not isinstance(wrong, Disagreement):
        return ""
    if wrong.kind == "inf" and context.dtype == "float16":
        return "An intermediate value exceeded 65,504: is the accumulator float16? Sum in float32."
    if wrong.kind == "nan" and case.group == "special":
        return "Comparisons with NaN are false, and max(NaN, x) may be x: propagate NaN explicitly."
    if case.group == "layouts":
        return "Index through the view's strides, or declare contiguous=(...) for the input."
    return ""
