"""Puts wrong values into words: what differs, and what that usually comes from."""

from __future__ import annotations

from opsmith.checker.properties.context import Context
from opsmith.subject.case import Case
from opsmith.subject.oracle import Disagreement

__all__ = ["describe", "hint_for"]


def describe(context: Context, wrong: Disagreement | Exception) -> str:
    """Return how results differ from the reference's, by the name of the output, or what the kernel raises."""
    if isinstance(wrong, Exception):
        name = "" if getattr(wrong, "is_quoted", False) else f" {type(wrong).__name__}"
        return f"it raises{name} where the reference does not: {str(wrong).splitlines()[0][:300]}"
    signature = context.subject.signature
    names = [output.name for output in signature.outputs] if signature is not None else []
    names += context.subject.mutated
    known = wrong.output < len(names) and len(names) == len(set(names))
    return str(wrong).replace(f"output {wrong.output}", names[wrong.output], 1) if known else str(wrong)


def hint_for(context: Context, case: Case, wrong: Disagreement | Exception | None) -> str:
    """Return what such a difference usually comes from, or ""."""
    if not isinstance(wrong, Disagreement):
        return ""
    if wrong.kind == "inf" and context.dtype == "float16":
        return "An intermediate value exceeded 65,504: is the accumulator float16? Sum in float32."
    if wrong.kind == "nan" and case.group == "special":
        return "Comparisons with NaN are false, and max(NaN, x) may be x: propagate NaN explicitly."
    if case.group == "layouts":
        return "Index through the view's strides, or declare contiguous=(...) for the input."
    return ""
