"""Judges one call again, by itself: whether the property that failed on it fails on it here too.

A process of its own asks this question before a finding is printed: a fork that has not called the operator yet, and a
new process that runs the finding's program.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from opsmith.checker.bits import differences
from opsmith.checker.outcome import Finding
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.table import PROPERTIES
from opsmith.subject.case import Case
from opsmith.subject.subject import Subject
from opsmith.subject.suite import Suite

__all__ = ["GROUPS", "MEASURED", "VALUES", "call_all", "message_of", "only"]

# These compare a call's results with the reference's, and differ in the calls.
VALUES = frozenset({"value", "magnitude", "special values", "sizes", "empty", "strides", "arguments"})
# These look at several calls of their own choice, and a call alone does not tell.
GROUPS = frozenset({"compile", "export", "opcheck", "bad arguments", "large", "streams", "devices", "graph"})
# These are about chance or need many calls: that they do not fail at once says nothing.
MEASURED = frozenset({"threads", "memory growth"})


class _OneCase(Suite):
    """A suite of one call, whatever is asked for."""

    def cases(self, dtypes: Mapping[str, str], *groups: str) -> Iterator[Case]:
        return iter(self.examples)

    def plain(self, dtypes: Mapping[str, str]) -> Case:
        return self.examples[0]

    def varied(self, dtypes: Mapping[str, str], *groups: str) -> Iterator[Case]:
        return iter(())

    def even(self, dtypes: Mapping[str, str], values: str, seed: int) -> Case | None:
        return None


def only(subject: Subject, case: Case) -> Subject:
    """Return the subject with a suite that has one call."""
    alone = replace(subject, examples=(case,))
    vars(alone)["suite"] = _OneCase(None, (case,), subject.seed, subject.most_elements, mutated=subject.mutated)
    return alone


def call_all(subject: Subject, cases: Sequence[Case], device: str) -> None:
    """Make calls of the kernel, whatever they give or raise."""
    for case in cases:
        try:
            subject.kernel_results(case.build(device))
        except Exception:
            continue


def message_of(context: Context, name: str, case: Case, earlier: Sequence[Case] = ()) -> str:
    """Return what the property of that name finds wrong with a call, after earlier ones, or "" where it is right."""
    if name == "determinism" and (earlier or (found := _difference_after(context, case, ()))):
        return _difference_after(context, case, earlier) if earlier else found
    call_all(context.subject, earlier, context.device)
    if name in VALUES:
        from opsmith.checker.properties.values import wrong_value

        return wrong_value(context, case)
    if name == "gradient":
        from opsmith.checker.properties.gradients import wrong_gradient

        return wrong_gradient(context, case)
    (item,) = (item for item in PROPERTIES if item.name == name)
    alone = context if name in GROUPS else replace(context, subject=only(context.subject, case))
    findings: tuple[Finding, ...] = item.run(alone).findings
    return findings[0].message if findings else ""


def _difference_after(context: Context, case: Case, earlier: Sequence[Case]) -> str:
    """Return how a call's results differ from those that it had before others were made, or ""; without others, at once.

    Many times, for what shows with every tenth call.
    """
    subject = context.subject

    def results() -> dict[str, Any]:
        found = subject.kernel_results(case.build(context.device))
        return {f"output {index}": one.detach().clone() for index, one in enumerate(found)}

    before = results()
    call_all(subject, earlier, context.device)
    until_s = time.thread_time() + _SECONDS
    for number in range(1 if earlier else _CALLS):
        found = differences(before, results())
        if found and earlier:
            return f"{case.label}: {found[0]} changes after other calls"
        if found:
            return f"{case.label}: {found[0]} differs between equal calls, within {number + 2} of them"
        if time.thread_time() > until_s:
            break
    return ""


_CALLS, _SECONDS = 200, 0.3
