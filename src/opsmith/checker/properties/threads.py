"""Checks that results depend neither on the number of threads nor on which of them comes first."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from opsmith.checker.bits import Difference, differences
from opsmith.checker.calls import accepted, kernel_outputs, quiet
from opsmith.checker.memory.guard import sheltered
from opsmith.checker.memory.perturb import perturb_malloc, perturbed_no_more
from opsmith.checker.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.checker.process.threads import on_threads
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.first_calls import unsteady_first_call
from opsmith.checker.properties.forked_calls import hangs_after_fork
from opsmith.checker.properties.python_threads import interference
from opsmith.checker.properties.sanitized import race_under_sanitizer
from opsmith.checker.properties.stress import are_equal, long_calls, results_of
from opsmith.subject.case import Case
from opsmith.subject.oracle import compare, expect

__all__ = ["threads"]

# What is small runs on one thread anyway, unless the kernel has threads of its own.
_LARGE_ELEMENTS = 4096
_MOST_LARGE = 2
_LEAST, _MOST = 4, 400
# Calls on one thread, after which results that vary on several are a race: more, since one call in many may be another.
_MOST_ALONE = 1_200
# A slow call offers its threads many moments to meet in, so two are compared; where others are quick it is left out.
_SLOW_S, _LEAST_SLOW = 0.03, 2
# Of this thread's processor time, for all cases and numbers of threads together. A race shows where two threads do the
# same thing at the same time, so a busy machine needs longer by the clock.
_SECONDS = 0.5
# More threads than most machines have cores; where a call is quick, for it waits for all of them.
_MANY_THREADS, _QUICK_S = 65, 0.005
_RACE_HINT = (
    "Two threads write the same memory, or one reads what another writes: give each its own part, and join after."
)
_CALLS_TO_LOOK = 20
_THREAD_S = 10e-6  # a thread's beginning and end alone take longer
# Of each Python thread's processor time, and the processes that make a first call.
_SECONDS_IN_PYTHON = 0.06
_PROCESSES = 6
# What hands out memory or looks at it in another way, and so does not depend on the number of threads.
_HARMLESS = (
    "empty",
    "new_empty",
    "empty_like",
    "empty_strided",
    "as_strided",
    "view",
    "reshape",
    "contiguous",
    "detach",
)


@dataclass(frozen=True)
class _Stress:
    """A call with its arguments, its results on one thread, whether the reference takes it in good time, and its own."""

    case: Case
    values: dict[str, Any]
    base: dict[str, torch.Tensor]
    has_reference: bool
    seconds: float

    @property
    def is_large(self) -> bool:
        """Whether several threads work on it."""
        return self.case.elements >= _LARGE_ELEMENTS

    @property
    def is_slow(self) -> bool:
        """Whether there is time for a few calls only."""
        return self.seconds > _SLOW_S


def threads(context: Context) -> Outcome:
    """Results on two, three and more threads than there are cores are those on one, and calls may run side by side."""
    usual = torch.get_num_threads()
    part = _part_of(context)
    finding = unsteady_first_call(context, max(2, round(_PROCESSES * part))) or hangs_after_fork(context)
    if finding is not None:
        return failed(finding)
    with sheltered(context.device), quiet(), on_threads(1):
        stressed = _stressed(context)
        if not stressed:
            return not_run("no input is accepted by both the reference and the kernel")
        pairs = [(one, number) for one in stressed for number in _numbers(one, usual)]
        share_s = _SECONDS * part / len(pairs)
        notes = dict[str, None]()
        timed = [(one, number, share_s) for one, number in pairs]
        for one, number, seconds in [*timed, *_on_many_threads(context, stressed)]:
            found = _differs_on(context, one, number, seconds)
            if isinstance(found, Outcome):
                return found
            if found:
                notes[found] = None
        large = next((one.case for one in stressed if one.is_large), None)
        if (finding := interference(context, large, _SECONDS_IN_PYTHON * part)) is not None:
            return failed(finding, inputs=len(stressed))
    if context.thorough:
        finding, why_not = race_under_sanitizer(context)
        if finding is not None:
            return failed(finding, inputs=len(stressed))
        notes |= {why_not: None} if why_not else {}
    return passed(len(stressed), note="; ".join(notes))


def _on_many_threads(context: Context, stressed: list[_Stress]) -> list[tuple[_Stress, int, float]]:
    """Return a call to make a few times on more threads than an array of a fixed size may have places for."""
    several = (one for one in stressed if one.is_large and one.has_reference and one.seconds < _QUICK_S)
    return [(one, _MANY_THREADS, 0.0) for one in itertools.islice(several, 1 if context.is_main_type else 0)]


def _part_of(context: Context) -> float:
    """Return how much of the time an element type gets: races are those of the same code in all of them."""
    if context.thorough:
        return 10.0
    return 1.0 if context.is_main_type else 0.15


def _numbers(one: _Stress, usual: int) -> list[int]:
    if not one.is_large:
        return [2]
    return sorted(({2, 2 * usual + 1} if one.is_slow else {2, 3, usual, 2 * usual + 1}) - {1})


def _stressed(context: Context) -> list[_Stress]:
    """Return a plain call, and of large ones and long ones those that are not slow, or else the quickest."""
    plain = _timed(context, itertools.islice(accepted(context, "plain"), 1), has_reference=True)
    long = _timed(context, long_calls(context), has_reference=False)
    large = itertools.islice(accepted(context, "large"), _MOST_LARGE if context.is_main_type else 1)
    several = [*_timed(context, large, has_reference=True), *long]
    quick = [one for one in several if not one.is_slow]
    return [*plain, *(quick or sorted(several, key=lambda one: one.seconds)[:1])]


def _timed(context: Context, cases: Iterable[Case], *, has_reference: bool) -> list[_Stress]:
    """Call the kernel with each; those that it refuses are left out."""
    found = []
    for case in cases:
        context.tell(case)
        values = case.build(context.device)
        started = time.perf_counter()
        with contextlib.suppress(Exception):
            base = results_of(context, values)
            found.append(_Stress(case, values, base, has_reference, time.perf_counter() - started))
    return found


def _differs_on(context: Context, one: _Stress, number: int, seconds: float) -> Outcome | str:
    """Return how results on a number of threads differ from those on one: an outcome, or a note where it is not a defect."""
    context.tell(one.case)
    first: dict[str, torch.Tensor] | None = None
    varying: list[Difference] = []
    started = time.thread_time()
    with on_threads(number):
        for count in range(_MOST):
            if count >= (_LEAST_SLOW if one.is_slow else _LEAST) and time.thread_time() - started > seconds:
                break
            found = results_of(context, one.values)
            first = found if first is None else first
            if not are_equal(first, found):
                varying = differences(first, found)
                break
    if varying:
        return _of_varying(context, one, number, varying[0])
    always = [] if first is None or are_equal(one.base, first) else differences(one.base, first)
    if not always or first is None:
        return ""
    if alone := _unsteady_alone(context, one):
        return alone
    if not one.has_reference:
        return ""  # a large call, which it has, shows the same
    if _is_rounding(context, one, first) and (why := _why_excused(context, one.case, number)):
        return why
    message = f"{one.case.label}: {always[0]} on {number} threads always differs from that on one"
    return failed(
        Finding(message, one.case, "Do not split the work by the number of threads: sum blocks of a fixed size.")
    )


def _of_varying(context: Context, one: _Stress, number: int, varying: Difference) -> Outcome:
    """Return the outcome for results that vary on several threads."""
    if alone := _unsteady_alone(context, one):
        return alone
    message = (
        f"{one.case.label}: {varying} varies from call to call on {number} threads, and does not on one: a data race"
    )
    return failed(Finding(message, one.case, _RACE_HINT))


def _unsteady_alone(context: Context, one: _Stress) -> Outcome | None:
    """Return the outcome for an operator whose results vary on one thread of PyTorch's already."""
    try:
        found = _other_alone(context, one)
    finally:
        perturbed_no_more()
    if found is None:
        return None
    if _starts_threads(context, one):
        different = differences(one.base, found)[0]
        message = f"{one.case.label}: {different} varies from call to call, and the kernel starts threads of its own"
        return failed(Finding(message, one.case, _RACE_HINT))
    return not_run("results already vary on one thread; see determinism")


def _other_alone(context: Context, one: _Stress) -> dict[str, torch.Tensor] | None:
    """Return other results of the same call, if one of many has them; what is not initialized differs in each."""
    started = time.thread_time()
    for count in range(_MOST_ALONE):
        if count >= _LEAST and time.thread_time() - started > 4 * _SECONDS:
            break
        perturb_malloc(count)
        found = results_of(context, one.values)
        if not are_equal(one.base, found):
            return found
    return None


def _starts_threads(context: Context, one: _Stress) -> bool:
    """Whether other threads than the calling one work in a call, though PyTorch is to use one alone."""
    before_s = _busy_elsewhere_s()
    for _ in range(_CALLS_TO_LOOK):
        results_of(context, one.values)
    return _busy_elsewhere_s() - before_s > _CALLS_TO_LOOK * _THREAD_S


def _busy_elsewhere_s() -> float:
    """Return the processor time that threads other than this one have had."""
    return time.process_time() - time.thread_time()


def _is_rounding(context: Context, one: _Stress, found: dict[str, torch.Tensor]) -> bool:
    """Whether results are as near to the reference's as results may be."""
    values = one.case.build(context.device)
    outputs = [result for name, result in found.items() if not name.startswith("the gradient")]
    try:
        return compare(outputs, expect(context.subject, one.case, values)) is None
    except Exception:
        return False


def _why_excused(context: Context, case: Case, number: int) -> str:
    """Return why results may differ in their last digits, or "": PyTorch's own sums and products do."""
    subject = context.subject

    def reference() -> dict[str, torch.Tensor]:
        outputs = subject.results(subject.reference, case.build(context.device))
        return {f"output {index}": output for index, output in enumerate(outputs)}

    with on_threads(1):
        one = reference()
    with on_threads(number):
        if differences(one, reference()):
            return "the last digits depend on the number of threads, as the reference's do"
    values = case.build(context.device)
    used = _pytorch_operators(lambda: kernel_outputs(subject, values))
    return f"the last digits depend on the number of threads; it calls {', '.join(sorted(used)[:3])}" if used else ""


def _pytorch_operators(call: Callable[[], Any]) -> set[str]:
    """Return which operators of PyTorch's compute something in a call, in Python or in C++."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    names = {event.name for event in profile.events() or ()}
    return {name for name in names if name.startswith("aten::") and name.removeprefix("aten::") not in _HARMLESS}
