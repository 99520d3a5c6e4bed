"""Does the kernel compute what the reference computes? Each group of the suite is a property with its own name."""

from __future__ import annotations

from functools import partial

from opsmith.check.oracle import Disagreement, compare, expect
from opsmith.check.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.check.properties import Context
from opsmith.check.recipe import Case
from opsmith.check.shrink import smallest

__all__ = ["arguments", "empty", "magnitude", "sizes", "special", "strides", "value"]


class RefusedError(Exception):
    """The reference does not take these arguments: nothing is known about them."""


def value(context: Context) -> Outcome:
    """Ordinary values, contiguous, a few elements."""
    return _agree(context, "plain")


def magnitude(context: Context) -> Outcome:
    """Values whose sums, products and exponentials leave the element type."""
    return _agree(context, "values")


def special(context: Context) -> Outcome:
    """NaN and infinities arrive where the reference has them."""
    return _agree(context, "special")


def sizes(context: Context) -> Outcome:
    """Sizes around the widths of vectors, warps and blocks, and one large enough for every path."""
    return _agree(context, "sizes", "large")


def empty(context: Context) -> Outcome:
    """Sizes of zero: no crash, and results of the right size."""
    return _agree(context, "empty")


def strides(context: Context) -> Outcome:
    """The same values in another layout give the same results."""
    return _agree(context, "layouts")


def arguments(context: Context) -> Outcome:
    """Optional tensors left out, flags the other way, lists of another length."""
    return _agree(context, "scalars")


def disagreement(context: Context, case: Case) -> Disagreement | Exception | None:
    """Return how the kernel's results differ from what they should be, or the kernel's exception; raises RefusedError."""
    subject = context.subject
    values = case.build(context.device)
    try:
        expected = expect(subject, case, values)
    except Exception as error:
        raise RefusedError(str(error)) from error
    context.tell(case)
    try:
        found = subject.results(subject.kernel, values)
    except Exception as error:
        return error
    return compare(found, expected)


def _agree(context: Context, *groups: str) -> Outcome:
    compared, refused = 0, 0
    for case in context.subject.suite.cases(context.dtypes, *groups):
        try:
            wrong = disagreement(context, case)
        except RefusedError:
            refused += 1
            continue
        compared += 1
        if wrong is None or (case.group != "plain" and _is_wrong_when_plainer(context, case)):
            continue
        small = smallest(context, case, partial(_fails_alike, context, type(wrong)))
        again = disagreement(context, small)
        message = _describe(context, again if again is not None else wrong)
        seen = "" if small == case or not case.label else f" First seen with: {case.label}."
        where = f"{case.label}: " if small == case and case.label not in ("", "plain") else ""
        return failed(Finding(f"{where}{message}.{seen}", small, _hint(context, small, again)), inputs=compared)
    if compared == 0:
        return not_run("the reference refuses every input of this kind" if refused else "no input of this kind")
    note = f"the reference refused {refused} of {refused + compared} inputs" if refused else ""
    return passed(compared, refused=refused, note=note)


# What makes a case of a group what it is, and what it is without that.
_WITHOUT = {"layouts": {"layout": "contiguous"}, "values": {"values": "normal"}, "special": {"values": "normal"}}


def _is_wrong_when_plainer(context: Context, case: Case) -> bool:
    """Whether the kernel is wrong without what the case is about: then another property says so, and it is one defect.

    A kernel that forgets the end of a row is wrong at those sizes in every layout.
    """
    plain = context.subject.suite.plain(context.dtypes)
    # An example's numbers are given, and do not change with their kind.
    is_given = case.group != "layouts" and any(recipe.given is not None for recipe in case.tensors().values())
    others = [plain, case.changed(**_WITHOUT[case.group])] if case.group in _WITHOUT and not is_given else [plain]
    try:
        return any(other != case and disagreement(context, other) is not None for other in others)
    except RefusedError:
        return False


def _fails_alike(context: Context, kind: type, case: Case) -> bool:
    try:
        return isinstance(disagreement(context, case), kind)
    except RefusedError:
        return False


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
        return "A number passed 65,504 on the way: is the accumulator float16? Sum in float32."
    if wrong.kind == "nan" and case.group == "special":
        return "Comparisons with NaN are false, and max(NaN, x) may be x: NaN has to be passed on by hand there."
    if case.group == "layouts":
        return "Index through the view's strides, or declare contiguous=(...) for the input."
    return ""
