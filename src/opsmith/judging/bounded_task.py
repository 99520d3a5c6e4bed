"""Calls a task's own functions within limits of time and memory: a task whose reference does not return is refused.

The limits are signals between two steps of Python. A single call of C++ ends first, unless somebody gives the whole
process up for it. Outside of the main thread, where there are no such signals, a call is refused when it has ended.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from opsmith.benchmark.deadline import OutOfTime, time_limit
from opsmith.checker.process.memory_limit import limited_memory
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge
from opsmith.judging.task import Task
from opsmith.judging.watchdog import Watchdog
from opsmith.subject.blame import is_out_of_memory

__all__ = ["BoundedTask", "OverLimit", "TaskLimits", "host_memory_limit", "without_warnings"]

Result = TypeVar("Result")
_REFERENCE, _INPUTS = "its reference", "what makes its inputs"
_MOST_SHOWN = 4
# The clocks of a signal and of Python may differ by so much.
_ABOUT = 0.9


class OverLimit(BaseException):
    """A task takes more than it may, or makes no inputs; `charge` says what.

    No Exception, so that nothing on the way excuses it.
    """

    def __init__(self, charge: Charge) -> None:
        super().__init__(charge.message)
        self.charge = charge


@dataclass(frozen=True)
class TaskLimits:
    """What a task's own functions may take: seconds of a call, of the first one, and of all; bytes of host memory."""

    call_s: float
    first_s: float
    all_s: float
    memory_bytes: int


@contextmanager
def without_warnings() -> Iterator[None]:
    """Keep what a task's functions warn of, such as a beta state, from the reader of a verdict."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def host_memory_limit(more_bytes: int) -> AbstractContextManager[None]:
    """Limit the host memory of a block; not where there is a GPU, whose driver reserves far more than it uses."""
    return nullcontext() if torch.cuda.is_available() else limited_memory(more_bytes)


class BoundedTask:
    """A task whose functions raise OverLimit where they take too long, in one call or in all, or where inputs are not made.

    `task` has these functions. `reference` is the one that was given: nothing stands around what is timed or compiled.
    `most_elements` is how many the largest tensor has that it was called with.
    `give_up` is called in another thread, with the charge, for a call that does not come back at all.
    """

    def __init__(self, task: Task, limits: TaskLimits, give_up: Callable[[Charge], None] | None = None) -> None:
        self.limits, self.reference, self._give_up = limits, task.reference, give_up
        self._watchdog = None if give_up is None else Watchdog()
        self._left_s, self._is_first, self.most_elements = limits.all_s, True, 0
        self.task = replace(
            task,
            reference=self._bounded(_REFERENCE, task.reference),
            inputs=self._bounded(_INPUTS, task.inputs),
            posed={label: self._bounded(_INPUTS, make) for label, make in task.posed.items()},
        )

    def close(self) -> None:
        """Watch the calls no more."""
        if self._watchdog is not None:
            self._watchdog.close()

    def forget_total(self) -> None:
        """Limit single calls alone from here on, where something else limits how many there are."""
        self._left_s = float("inf")

    def _bounded(self, what: str, function: Callable[..., Result]) -> Callable[..., Result]:
        def call(*arguments: Any) -> Result:
            # The first call may build something.
            call_s = self.limits.first_s if self._is_first else self.limits.call_s
            most_s = min(call_s, self._left_s)
            if most_s <= 0:
                raise self._over(what, arguments, call_s)
            begun_s = time.monotonic()
            watched = self._watched(most_s, lambda: self._over(what, arguments, call_s).charge)
            in_time = time_limit(most_s, ends_programs=self._is_first)
            # Inputs are made hundreds of times a round, and a limit of memory costs as much as a small one does.
            in_memory = host_memory_limit(self.limits.memory_bytes) if what == _REFERENCE else nullcontext()
            try:
                with watched, in_time, in_memory:
                    found = function(*arguments)
                    if torch.cuda.is_initialized():
                        torch.cuda.synchronize()
            except OutOfTime:
                if time.monotonic() - begun_s < _ABOUT * most_s:
                    raise  # the limit is one around this call
                raise self._over(what, arguments, call_s) from None
            except Exception as error:
                if what == _REFERENCE or is_out_of_memory(error):
                    raise
                text = f"{what} raises {type(error).__name__} for some seed: {str(error)[:300]}"
                raise OverLimit(Charge(Refusal.DEGENERATE_TASK, text)) from error
            taken_s = time.monotonic() - begun_s
            if taken_s > most_s:
                raise self._over(what, arguments, call_s)
            self._left_s -= taken_s
            if what == _REFERENCE:
                self._is_first = False
                self.most_elements = max([self.most_elements, *_sizes_of(arguments)])
            return found

        return call

    def _watched(self, seconds: float, charge: Callable[[], Charge]) -> AbstractContextManager[None]:
        watchdog, give_up = self._watchdog, self._give_up
        if watchdog is None or give_up is None:
            return nullcontext()
        return watchdog.watching(seconds, lambda: give_up(charge()))

    def _over(self, what: str, arguments: Sequence[Any], call_s: float) -> OverLimit:
        if self._left_s < call_s:
            all_s = self.limits.all_s
            text = f"{what} has taken the {all_s:.0f} s that all its calls may; pose smaller ones, or allow more (--seconds)"
        else:
            text = f"{what} does not return within {call_s:.0f} s"
        if what == _REFERENCE and arguments:
            text += f" (called with {', '.join(map(_shown, arguments[:_MOST_SHOWN]))})"
        return OverLimit(Charge(Refusal.SLOW_REFERENCE, text))


def _sizes_of(values: Sequence[Any]) -> list[int]:
    return [value.numel() for value in values if isinstance(value, Tensor)]


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, Mapping | list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    return repr(value)[:40]
