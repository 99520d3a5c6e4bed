"""Checks that a kernel writes all of its outputs and nothing else, and reads nothing but its inputs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import torch

from opsmith.checker.calls import accepted, accepts, differentiated, is_gradient_of_body, kernel_outputs, quiet
from opsmith.checker.memory.fence import before_guard_page, behind_guard_page
from opsmith.checker.memory.guard import between_fences, why_unguarded
from opsmith.checker.memory.observations import Observation, depends_on, observation_of, observe_cases
from opsmith.checker.memory.observed_call import observe_call
from opsmith.checker.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.checker.particulars import named
from opsmith.checker.process.child import is_child
from opsmith.checker.process.lost_gpu import settle
from opsmith.checker.properties.agreement import agrees
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.read_only import written_and_put_back
from opsmith.checker.shrink import sizes_of, smallest
from opsmith.subject.case import Case
from opsmith.subject.choices_of_sizes import is_tail

__all__ = ["UNTOUCHED", "inputs_unchanged", "outputs_written", "reads_outside", "writes_outside"]

# Those of one size.
_MOST_TAILS = 12
# Says of an element that the kernel left it out.
UNTOUCHED = "is not written"
# Says what was seen in a case, or "" where nothing was wrong.
_Judge = Callable[[Case], str]


def outputs_written(context: Context) -> Outcome:
    """Every element of every output is written: results do not depend on what was in newly allocated memory."""
    if why := why_unguarded(context.device):
        return not_run(why)

    def judge(case: Case) -> str:
        found = depends_on(context, case, "body")
        if not found:
            return ""
        if found[0].is_untouched:
            return f"{found[0]} {UNTOUCHED}: it holds what its memory held before the call"
        return f"{found[0]} depends on uninitialized memory: something reads an allocation before writing it"

    return _first(
        context,
        [seen.case for seen in observe_cases(context).made if seen.differs],
        judge,
        "New memory holds arbitrary values. Write each element on every path, including vector tails and the last block.",
    )


def writes_outside(context: Context) -> Outcome:
    """Nothing is written before or after a block of memory, or between the elements of an argument."""

    def judge(case: Case) -> str:
        seen = _look_again(context, case)
        if seen is None:
            return ""
        # A kernel that ignores strides writes between elements as well; that has a name of its own.
        return seen.outside or (seen.gaps if seen.gaps and agrees(context, case) else "")

    cases = [seen.case for seen in observe_cases(context).made if seen.outside or seen.gaps]
    hint = (
        "Compare the last index with the size: if vectors and blocks do not divide the size, they reach past the end."
    )
    outcome = _first(context, cases, judge, hint, note=_limits_of(context.device))
    if outcome.state == "passed" and context.device == "cpu" and is_child() and not why_unguarded("cpu"):
        # What is written farther away than the margins are wide ends the process here. What the call is given is
        # allocated before: whoever reads past its end does something else.
        large = islice(accepted(context, "large"), 1 if context.is_main_type else 0)
        _call_all(context, [*accepted(context, "plain"), *large], around=between_fences)
    return outcome


def reads_outside(context: Context) -> Outcome:
    """Results do not depend on what lies around the inputs, or around anything that was allocated."""

    def judge(case: Case) -> str:
        found = depends_on(context, case, "around")
        # With strides ignored, memory between elements is read; that has a name of its own.
        if not found or (case.group == "layouts" and not agrees(context, case)):
            return ""
        return f"{found[0]} depends on memory outside the inputs or its own allocations: something reads out of bounds"

    hint = "Compare indices with the size before reading; the first and last elements lack a neighbour."
    cases = [seen.case for seen in observe_cases(context).made if seen.differs]
    outcome = _first(context, cases, judge, hint, note=_limits_of(context.device))
    # A GPU that has stopped is lost to its process: only a child's may be put at risk.
    if outcome.state == "passed" and (context.device == "cpu" or is_child()):
        _call_before_guard_page(context)
    return outcome


def _call_before_guard_page(context: Context) -> None:
    """Call the kernel on inputs that end or begin at unreadable memory: a read beyond crashes, whatever it would give.

    The gradient too, where a kernel computes it, and in one type with every rest after whole vectors.
    """
    tails = (case for case in accepted(context, "sizes") if is_tail(case.label)) if context.is_main_type else ()
    cases = [*accepted(context, "plain"), *islice(tails, _MOST_TAILS)]
    for place in (before_guard_page, behind_guard_page):
        _call_all(context, cases, place)


_Place = Callable[[Mapping[str, Any]], Mapping[str, Any]]
_Around = Callable[[], contextlib.AbstractContextManager[None]]


def _call_all(
    context: Context, cases: list[Case], place: _Place = dict, around: _Around = contextlib.nullcontext
) -> None:
    """Call the kernel with arguments put in some place, and its gradient where a kernel computes that."""
    for case in cases:
        context.tell(case)
        with quiet(), contextlib.suppress(Exception):
            values = place(case.build(context.device))
            with around():
                kernel_outputs(context.subject, values)
        settle(context.device)
        if not is_gradient_of_body(context.subject):
            with quiet(), contextlib.suppress(Exception):
                _differentiate(context, case, place, around)
            settle(context.device)


def _differentiate(context: Context, case: Case, place: _Place, around: _Around) -> None:
    results, leaves = differentiated(context.subject, place(case.build(context.device)))
    if results:
        arrived = place({str(index): torch.ones_like(result) for index, result in enumerate(results)})
        with around():
            torch.autograd.grad(results, list(leaves.values()), list(arrived.values()), allow_unused=True)


def inputs_unchanged(context: Context) -> Outcome:
    """Arguments that the schema does not call mutated hold the same bytes afterwards."""

    def judge(case: Case) -> str:
        seen = _look_again(context, case)
        return (
            f"{seen.changed} was changed, but the schema does not declare that it is written to"
            if seen and seen.changed
            else ""
        )

    cases = [seen.case for seen in observe_cases(context).made if seen.changed]
    hint = "Work on a copy, or declare it: mutates=... in a definition, mutates_args, or Tensor(a!) in the schema."
    outcome = _first(context, cases, judge, hint)
    if outcome.state == "passed" and context.device == "cpu" and (found := written_and_put_back(context)) is not None:
        return failed(found, inputs=outcome.inputs)
    return outcome


def _limits_of(device: str) -> str:
    """Return what of a device's memory is not watched."""
    if device != "cpu":
        return "on a GPU a kernel's own allocations have no margins but the end of each output's block of 512 bytes"
    return why_unguarded(device)


def _first(context: Context, cases: list[Case], judge: _Judge, hint: str, note: str = "") -> Outcome:
    """Return the outcome of the first case that is found wrong when it is run again for this question alone."""
    observed = observe_cases(context)
    count = len(observed.made)
    if count == 0:
        return not_run("no input is accepted by both the reference and the kernel")
    for case in cases:
        if not judge(case):
            continue
        small = smallest(context, case, lambda other: accepts(context, other) and bool(judge(other)))
        message = judge(small) or judge(case)
        if message:
            finding = Finding(named(small, message, sizes_of(small, context)), small, hint, first=case)
            return failed(finding, inputs=count, note=note)
    return passed(count, left_out=observed.left_out, note=note)


def _look_again(context: Context, case: Case) -> Observation | None:
    is_guarded = not why_unguarded(context.device)
    call = observe_call(context, case, with_guard=is_guarded)
    return observation_of(context, case, [call]) if call.error is None else None
