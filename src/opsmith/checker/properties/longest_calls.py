"""Makes calls of a million elements, which a loop in blocks or a counter of 20 bits may not reach."""

from __future__ import annotations

from contextlib import suppress

from opsmith.checker.calls import accepted, accepts, kernel_outputs
from opsmith.checker.properties.agreement import roughly_equal
from opsmith.checker.properties.context import Context
from opsmith.subject.case import Case
from opsmith.subject.choices_of_sizes import about_size

__all__ = ["longest_calls"]

# They are made where a tenth of them takes the reference, and the kernel, this time at most.
_QUICK_S, _QUICK_IN_KERNEL_S = 0.01, 0.05


def longest_calls(context: Context) -> tuple[int, list[Case]]:
    """Return how many of them were made, in one type and where they take no long time, and those that look wrong.

    Whether digits are right shorter calls tell.
    """
    if context.is_limited or not (context.thorough or context.is_main_type):
        return 0, []
    cases = [case for case in context.subject.suite.longest(context.dtypes) if _is_quick(context, case)]
    return len(cases), [case for case in cases if not _is_roughly_right(context, case)]


def _is_quick(context: Context, case: Case) -> bool:
    """Whether neither the reference nor the kernel takes long where the same size is shorter; either may loop in Python."""
    name = _sized(case)
    shorter = next((one for one in accepted(context, "large") if _sized(one) == name), None)
    started_s = context.now_s()
    if shorter is None or not accepts(context, shorter) or context.now_s() - started_s > _QUICK_S:
        return False
    context.tell(shorter)
    values = shorter.build(context.device)
    started_s = context.now_s()
    with suppress(Exception):
        kernel_outputs(context.subject, values)
    return context.now_s() - started_s <= _QUICK_IN_KERNEL_S


def _sized(case: Case) -> str:
    return about_size(case.label).partition(" = ")[0]


def _is_roughly_right(context: Context, case: Case) -> bool:
    subject = context.subject
    context.tell(case)
    try:
        values = case.build(context.device)
        expected = subject.results(subject.reference, values)
        again = case.build(context.device) if subject.mutated else values
        return roughly_equal(subject.kernel_results(again), expected)
    except Exception:
        return False
