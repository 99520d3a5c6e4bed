"""Checks that a thousand calls leak no memory: neither malloc's, nor a GPU allocator's, nor Python objects."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch

from opsmith.checker.calls import accepted, differentiated, kernel_outputs, quiet
from opsmith.checker.memory.heap import heap_bytes
from opsmith.checker.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.checker.process.clock import now_s
from opsmith.checker.process.threads import on_threads
from opsmith.checker.properties.context import Context
from opsmith.subject.case import Case

__all__ = ["memory_growth"]

_CALLS, _CALLS_WITH_GRADIENT = 1000, 200
_WARM_UP = 100
# The smallest that malloc gives out is 32 bytes, of which a leak of 16 bytes is one.
_BYTES_A_CALL = 12.0
_OBJECTS_A_CALL = 0.5
_SECONDS = 2.0


@dataclass(frozen=True)
class _Held:
    """The memory that is held at one moment, in bytes and in Python objects."""

    heap: int
    device: int
    objects: int


def memory_growth(context: Context) -> Outcome:
    """Calls leak nothing, with and without a backward."""
    if heap_bytes() is None:
        return not_run("this C library does not report how much memory is in use (glibc 2.33 and newer do)")
    case = next(accepted(context, "plain"), None)
    if case is None:
        return not_run("no input is accepted by both the reference and the kernel")
    context.tell(case)
    subject, values = context.subject, case.build(context.device)

    def forward() -> None:
        kernel_outputs(subject, values)

    def backward() -> None:
        results, leaves = differentiated(subject, values)
        total = sum((result.sum() for result in results[1:]), results[0].sum())
        torch.autograd.grad(total, list(leaves.values()), allow_unused=True)

    with quiet(), on_threads(1):
        try:
            forward()
        except Exception as error:
            return not_run(f"the kernel rejects an ordinary input: {str(error).splitlines()[0][:200]}")
        calls, grown = _growth(context, case, forward, _CALLS)
        kind = ""
        if not grown:
            try:
                backward()
            except Exception:
                return passed(calls, note="without a backward, which it does not have")
            calls, grown = _growth(context, case, backward, _CALLS_WITH_GRADIENT)
            kind = " with a backward"
    if not grown:
        return passed(calls)
    return failed(
        Finding(
            f"{calls:,} calls{kind} leak {grown}",
            case,
            "Free manual allocations on every path; bound caches and lists that are kept between calls.",
        ),
        inputs=calls,
    )


def _growth(context: Context, case: Case, call: Callable[[], None], calls: int) -> tuple[int, str]:
    """Return how many calls were made, and what they left behind in words; "" for nothing.

    What grows at first is a cache, a pool, or one of Python's free lists, of which some take hundreds of calls to fill
    up and leave a few objects less with each. So where it grows at all, the same is measured again, and what has
    stopped growing is not a leak. Where it goes on, it is measured over windows that double all calls before them: a
    list whose memory doubles when it is full grows in each of those, a pool in none.
    """
    calls = _as_many_as_fit(context.device, call, calls)
    made, grown = 0, ""
    for windows, least in _WINDOWS:
        held = [_held(context)]
        for times in windows:
            for _ in range(times):
                context.tell(case)  # an operator that is slow does not hang
                for _ in range(calls):
                    call()
            held.append(_held(context))
        made = calls * sum(windows)
        grown = _describe(held, made, least)
        if not grown:
            return made, ""
    return made, grown


# Windows, as multiples of the calls there is time for, and in how many of them something has to grow.
_WINDOWS = (((1, 1, 1), 1), ((1, 1, 1), 1), ((6, 12), 2))


def _describe(held: list[_Held], calls: int, least: int) -> str:
    """Say what has grown, in so many steps at least."""
    limits = {"heap": _BYTES_A_CALL, "device": _BYTES_A_CALL, "objects": _OBJECTS_A_CALL}
    words = {"heap": "bytes of memory", "device": "bytes of the GPU's memory", "objects": "Python objects"}
    # Whole bytes: what else has grown meanwhile is a part of one for each call.
    digits = {"heap": ",.0f", "device": ",.0f", "objects": ".3g"}
    for what, limit in limits.items():
        amounts = [getattr(item, what) for item in held]
        steps = [after - before for before, after in pairwise(amounts)]
        growing = sum(step > limit * calls / 100 for step in steps)
        if amounts[-1] - amounts[0] >= limit * calls and growing >= least:
            grown = amounts[-1] - amounts[0]
            return f"{grown:,} {words[what]} ({grown / calls:{digits[what]}} a call)"
    return ""


def _as_many_as_fit(device: str, call: Callable[[], None], calls: int) -> int:
    """Warm up, and return how many calls there is time for: all, unless the operator is slow."""
    started = now_s(device)
    done = 0
    while done < _WARM_UP and (done < 5 or now_s(device) - started < _SECONDS / 4):
        call()
        done += 1
    each_s = (now_s(device) - started) / done
    return max(10, min(calls, int(_SECONDS / 3 / max(each_s, 1e-9))))


def _held(context: Context) -> _Held:
    gc.collect()
    device = 0
    if context.device != "cpu":
        torch.cuda.synchronize()
        device = torch.cuda.memory_allocated()
    return _Held(heap_bytes() or 0, device, sys.getallocatedblocks())
