"""Checks that a thousand calls leak nothing: no memory, no Python objects, no open files and no threads."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Callable
from dataclasses import replace
from itertools import islice, pairwise

import torch

from opsmith.checker.calls import accepted, differentiated, is_accepted, kernel_outputs, quiet
from opsmith.checker.memory.heap import heap_bytes
from opsmith.checker.memory.held import FewHeld, Held, few_held, held
from opsmith.checker.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.checker.process.child import Ended, Send, in_child
from opsmith.checker.process.clock import now_s
from opsmith.checker.process.threads import on_threads
from opsmith.checker.process.timed_cases import interleaved
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.refused_calls import refused_calls
from opsmith.subject.case import Case

__all__ = ["memory_growth"]

_CALLS, _CALLS_WITH_GRADIENT = 1000, 200
_WARM_UP = 100
# The smallest that malloc gives out is 32 bytes, of which a leak of 16 bytes is one.
_BYTES_A_CALL = 12.0
_OBJECTS_A_CALL = 0.5
_SECONDS = 2.0


# Of each kind of call a few, made in turns: what leaks on another path than that of plain calls.
_VARIED = ("layouts", "scalars", "special", "equal", "sizes", "large")
_MOST_VARIED, _MOST_ELEMENTS, _MOST_S = 16, 1 << 13, 2e-3
_ROUNDS, _ROUNDS_BEFORE, _CALLS_ALONE = 10, 5, 200
# Files and threads are counted over the first calls: a process may have few of them, and soon no more can be opened.
_FEW_HELD = 10
_SILENCE_S = 10.0
_HINT = "Free manual allocations on every path; bound caches and lists that are kept between calls."


def memory_growth(context: Context) -> Outcome:
    """Calls leak nothing: plain ones with and without a backward, those that take other paths, and those that raise."""
    if heap_bytes() is None:
        return not_run("this C library does not report how much memory is in use (glibc 2.33 and newer do)")
    case = next(accepted(context, "plain"), None)
    if case is None:
        return not_run("no input is accepted by both the reference and the kernel")
    context.tell(case)
    with quiet(), on_threads(1):
        try:
            kernel_outputs(context.subject, case.build(context.device))
        except Exception as error:
            return not_run(f"the kernel rejects an ordinary input: {str(error).splitlines()[0][:200]}")
        calls, note, finding = _of_plain_calls(context, case)
        finding = finding or _of_varied_calls(context) or _of_refused_calls(context)
    return passed(calls, note=note) if finding is None else failed(finding, inputs=calls)


def _of_plain_calls(context: Context, case: Case) -> tuple[int, str, Finding | None]:
    """Return how many calls were made, what is to be said of them, and a finding if they leak."""
    calls, grown = _growth(context, case, _forward(context, case), _CALLS)
    if grown:
        return calls, "", Finding(f"{calls:,} calls leak {grown}", case, _HINT)
    backward = _backward(context, case)
    try:
        backward()
    except Exception:
        return calls, "without a backward, which it does not have", None
    made, grown = _growth(context, case, backward, _CALLS_WITH_GRADIENT)
    message = f"{made:,} calls with a backward leak {grown}"
    return calls + made, "", Finding(message, case, _HINT) if grown else None


def _forward(context: Context, case: Case) -> Callable[[], object]:
    values = case.build(context.device)
    return lambda: kernel_outputs(context.subject, values)


def _backward(context: Context, case: Case) -> Callable[[], object]:
    values = case.build(context.device)

    def backward() -> None:
        results, leaves = differentiated(context.subject, values)
        total = sum((result.sum() for result in results[1:]), results[0].sum())
        torch.autograd.grad(total, list(leaves.values()), allow_unused=True)

    return backward


def _of_varied_calls(context: Context) -> Finding | None:
    """Return a finding if calls of several kinds in turns leak, about the one that leaks by itself."""
    cases = interleaved(context.subject.suite.cases(context.dtypes, *_VARIED))
    large = [case for case in cases if case.group == "large"][:1]
    small = (case for case in cases if case.elements <= _MOST_ELEMENTS)
    calls = []
    for case in islice((case for case in (*large, *small) if is_accepted(context, case)), _MOST_VARIED):
        call = _forward(context, case)
        context.tell(case)
        with contextlib.suppress(Exception):
            call()  # the first may initialize something
            started_s = now_s(context.device)
            call()
            if now_s(context.device) - started_s < _MOST_S:
                calls.append((case, call))
    all_of = lambda: [call() for _, call in calls]  # noqa: E731
    if not calls or not _growth(context, calls[0][0], all_of, _ROUNDS, _ROUNDS_BEFORE)[1]:
        return None
    for case, call in calls:
        made, grown = _growth(context, case, call, _CALLS_ALONE)
        if grown:
            return Finding(f"{case.label}: {made:,} calls leak {grown}", case, _HINT)
    return None


def _of_refused_calls(context: Context) -> Finding | None:
    """Return a finding if calls that raise leak; in a child, because one that is not refused may crash."""
    if context.device != "cpu":
        return None
    calls = list(refused_calls(context))

    def work(send: Send) -> None:
        with on_threads(1):
            refused = []
            for call in calls:
                send((0, ""))
                if call.raises(context):
                    refused.append(call)
            own = replace(context, tell=lambda _: send((0, "")))
            all_of = lambda: [call.raises(context) for call in refused]  # noqa: E731
            if not refused or not _growth(own, refused[0].case, all_of, _ROUNDS, _ROUNDS_BEFORE)[1]:
                return
            for call in refused:
                made, grown = _growth(own, call.case, lambda call=call: call.raises(context), _CALLS_ALONE)  # type: ignore[misc]
                if grown:
                    send((calls.index(call), f"{made:,} calls that raise leak {grown}"))
                    return

    at, words = 0, ""
    for message in in_child(work, silence_s=_SILENCE_S) if calls else ():
        if not isinstance(message, Ended):
            at, words = message
            context.tell(calls[at].case)
    return Finding(f"{calls[at].label}: {words}", calls[at].case, _HINT) if words else None


def _growth(
    context: Context, case: Case, call: Callable[[], object], calls: int, before: int = _WARM_UP
) -> tuple[int, str]:
    """Return how many calls were made, and what they left behind in words; "" for nothing.

    What grows at first is a cache, a pool, or one of Python's free lists, of which some take hundreds of calls to fill
    up and leave a few objects less with each. So where it grows at all, the same is measured again, and what has
    stopped growing is not a leak. Where it goes on, it is measured over windows that double all calls before them: a
    list whose memory doubles when it is full grows in each of those, a pool in none.
    """
    first = few_held()
    calls, warmed = _as_many_as_fit(context.device, call, calls, before)
    if grown := _describe_few(first, few_held(), warmed):
        return warmed, grown
    made, grown = 0, ""
    for windows, least in _WINDOWS:
        amounts = [held(context.device)]
        for times in windows:
            for _ in range(times):
                context.tell(case)  # an operator that is slow does not hang
                for _ in range(calls):
                    call()
            amounts.append(held(context.device))
        made = calls * sum(windows)
        grown = _describe(amounts, made, least)
        if not grown:
            return made, ""
    return made, grown


# Windows, as multiples of the calls there is time for, and in how many of them something has to grow.
_WINDOWS = (((1, 1, 1), 1), ((1, 1, 1), 1), ((6, 12), 2))


def _describe(all_held: list[Held], calls: int, least: int) -> str:
    """Say what has grown, in so many steps at least."""
    # Pages that are mapped come and go with malloc's: a leak is one of them in each call, in every window.
    limits = {
        "heap": _BYTES_A_CALL,
        "device": _BYTES_A_CALL,
        "objects": _OBJECTS_A_CALL,
        "mapped": 0.9 * resource.getpagesize(),
    }
    words = {
        "heap": "bytes of memory",
        "device": "bytes of the GPU's memory",
        "objects": "Python objects",
        "mapped": "bytes of mapped memory",
    }
    # Whole bytes: what else has grown meanwhile is a part of one for each call.
    digits = {"heap": ",.0f", "device": ",.0f", "objects": ".3g", "mapped": ",.0f"}
    for what, limit in limits.items():
        amounts = [getattr(item, what) for item in all_held]
        steps = [after - before for before, after in pairwise(amounts)]
        growing = sum(step > limit * calls / 100 for step in steps)
        if what == "mapped" and growing < len(steps):
            continue
        if amounts[-1] - amounts[0] >= limit * calls and growing >= least:
            grown = amounts[-1] - amounts[0]
            return f"{grown:,} {words[what]} ({grown / calls:{digits[what]}} a call)"
    return ""


def _describe_few(before: FewHeld, after: FewHeld, calls: int) -> str:
    """Say which of the things that a process has few of has grown with the calls; a pool has some, whatever they are."""
    for what, words in (("files", "open files"), ("threads", "threads")):
        grown = getattr(after, what) - getattr(before, what)
        if grown >= max(_FEW_HELD, calls / 2):
            return f"{grown:,} {words} ({grown / calls:.3g} a call)"
    return ""


def _as_many_as_fit(device: str, call: Callable[[], object], calls: int, before: int) -> tuple[int, int]:
    """Warm up; return how many calls there is time for, all unless the operator is slow, and how many were made."""
    started = now_s(device)
    done = 0
    while done < before and (done < 5 or now_s(device) - started < _SECONDS / 4):
        call()
        done += 1
    each_s = (now_s(device) - started) / done
    return max(10, min(calls, int(_SECONDS / 3 / max(each_s, 1e-9)))), done
