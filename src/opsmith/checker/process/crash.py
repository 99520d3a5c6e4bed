"""Turns the death or hang of a property's process into a finding: repeats the call alone, and makes it smaller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opsmith.checker.outcome import Finding, Outcome, failed, not_run
from opsmith.checker.particulars import named
from opsmith.checker.process.child import Ended, Send, in_child
from opsmith.checker.process.lost_gpu import leave_where_lost
from opsmith.checker.properties.context import Context
from opsmith.checker.shrink import sizes_of, smallest
from opsmith.subject.case import Case
from opsmith.subject.oracle import expect

__all__ = ["crashed", "crashed_in_the_reference", "see_earlier"]

# How long a call of the kernel may take that is made by itself.
_ALONE_S = 10.0


def see_earlier(context: Context, doing: Any, earlier: list[str]) -> Outcome | None:
    """Return `not run` where the call dies by itself too and an earlier property has found that.

    A kernel that crashes at a certain size does so under every property that comes to it, and is one defect. A property
    that tells no case makes plain calls.
    """
    if not earlier:
        return None
    ended = _call_alone(context, doing if isinstance(doing, Case) else context.subject.suite.plain(context.dtypes))
    how = "hangs" if ended.hung else "crashes"
    return not_run(f"the operator itself {how} there: see {earlier[0]}") if _died(ended) else None


def crashed_in_the_reference(context: Context, ended: Ended, case: Case) -> Outcome | None:
    """Return the outcome of a property whose child died or hangs while the reference was at work on a case.

    None where the reference alone does not crash there: a kernel that ran before may have damaged its memory.
    """
    if not ended.hung and not _died(
        _in_a_child(context, lambda: expect(context.subject, case, case.build(context.device)))
    ):
        return None
    on = f" on {case.label}" if case.label else ""
    output = f"\n{ended.output}" if ended.output else ""
    return failed(Finding(f"the reference {_how(ended)}{on}; the kernel was not called{output}", case))


def crashed(context: Context, ended: Ended, doing: Any) -> Outcome:
    """Return the outcome of a property whose child died or hangs; the input is made smaller, each try in a child."""
    case = first = doing if isinstance(doing, Case) else None
    words = f"it {_how(ended)}"
    on = f" on {case.label}" if case is not None and case.label else ""
    if case is None and isinstance(doing, str):
        on = f" in {doing}"
    output = f"\n{ended.output}" if ended.output else ""
    if case is None or ended.hung or context.device != "cpu":  # a process with a GPU takes a second
        return failed(Finding(f"{words}{on}{output}", case))
    case = _smallest_crash(context, case, ended.crash)
    message = named(case, words, sizes_of(case, context))
    assert first is not None
    seen = f", first seen with {first.label}" if case != first and first.label not in ("", *message.split(":")) else ""
    return failed(Finding(f"{message}{seen}{output}", case, _hint_of(context, case), first=first))


def _how(ended: Ended) -> str:
    return "hangs: no answer" if ended.hung else f"crashes: {ended.crash or 'the process ended'}"


def _hint_of(context: Context, case: Case) -> str:
    """Return what a kernel may have overlooked that writes an output which the call leaves out."""
    skipped = [one for one in context.subject.outputs if one.needed_by and case.arguments.get(one.needed_by) is False]
    return " ".join(
        f"With {one.needed_by} = False, {one.name} has no elements: the kernel must not write to it." for one in skipped
    )


def _smallest_crash(context: Context, case: Case, crash: str) -> Case:
    def crashes(other: Case) -> bool:
        ended = _call_alone(context, other)
        return _died(ended) and not ended.hung and ended.crash == crash

    return smallest(context, case, crashes) if crashes(case) else case


def _call_alone(context: Context, case: Case) -> Ended:
    """Call the kernel with a case in a child of its own, and return how that ended."""
    return _in_a_child(context, lambda: context.subject.kernel_results(case.build(context.device)))


def _in_a_child(context: Context, run: Callable[[], object]) -> Ended:
    def call(send: Send) -> None:
        try:
            run()
        finally:
            leave_where_lost(context.device)

    *_, ended = in_child(call, silence_s=_ALONE_S, until_s=context.until_s)
    assert isinstance(ended, Ended)
    return ended


def _died(ended: Ended) -> bool:
    """Whether a call did not come back; an exception is an exit status of 1, and no crash."""
    return bool(ended.crash) and ended.crash != "exit status 1"
