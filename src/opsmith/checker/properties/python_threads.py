"""Calls an operator from several threads of Python's at once: its kernel runs without the interpreter's lock."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from torch import Tensor

from opsmith.checker.calls import accepted, accepts, other_numbers
from opsmith.checker.outcome import Finding
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.stress import are_equal, results_of
from opsmith.subject.case import Case

__all__ = ["interference"]

_THREADS = 4
_SWITCH_S = 1e-4
_HINT = (
    "Memory that is static is shared by all threads that call: use local variables, thread_local ones, or a lock around "
    "them."
)


@dataclass(frozen=True)
class _Call:
    case: Case
    values: Mapping[str, Any]
    results: Mapping[str, Tensor]


@dataclass
class _Run:
    """What threads share: the calls that they make, for how much processor time each, and what was wrong first."""

    calls: list[_Call]
    seconds: float
    wrong: list[tuple[Case, str]] = field(default_factory=list)

    def work(self, context: Context, number: int) -> None:
        """Make one call after the other, beginning at another one in each thread."""
        turn = number
        while not self.wrong and time.thread_time() < self.seconds:
            call = self.calls[turn % len(self.calls)]
            turn += 1
            try:
                if not are_equal(call.results, results_of(context, call.values)):
                    self.wrong.append((call.case, "other results than alone"))
            except Exception as error:
                self.wrong.append((call.case, f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"))


def interference(context: Context, large: Case | None, seconds: float) -> Finding | None:
    """Return a finding if results change while other threads call with other numbers, sizes and arguments.

    `large` is a call that several threads of PyTorch's work on and is not slow. `seconds` is the processor time of each
    thread, for calls of one kind and for various ones.
    """
    context.tell("calls from several Python threads at once")
    # Threads meet in a kernel most often, for the time that it takes, where calls are as long as a few of Python's steps.
    pairs = list(_calls(context, [] if large is None else [large, other_numbers(large)]))
    every = [*pairs, *_calls(context, _various(context))]
    is_brief = not (context.thorough or context.is_main_type)
    for calls in (every,) if is_brief or len(pairs) < 2 else (pairs, every):
        if (finding := _interference_of(context, calls, seconds)) is not None:
            return finding
    return None


def _interference_of(context: Context, calls: list[_Call], seconds: float) -> Finding | None:
    if len(calls) < 2:
        return None
    run = _Run(calls, seconds)
    workers = [threading.Thread(target=run.work, args=(context, number)) for number in range(_THREADS)]
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(before_s)
    if not run.wrong:
        return None
    case, words = run.wrong[0]
    return Finding(f"{case.label}: called from {_THREADS} Python threads at once, it gives {words}", case, _HINT)


def _various(context: Context) -> list[Case]:
    plain = list(islice(accepted(context, "plain"), 2))
    others = [case for case in map(other_numbers, plain) if accepts(context, case)]
    return [*plain, *others, *islice(accepted(context, "scalars"), 4)]


def _calls(context: Context, cases: list[Case]) -> Iterator[_Call]:
    """Yield calls whose results do not vary by themselves."""
    for case in cases:
        values = case.build(context.device)
        try:
            one, other = results_of(context, values), results_of(context, values)
        except Exception:
            continue
        if are_equal(one, other):
            yield _Call(case, values, one)
