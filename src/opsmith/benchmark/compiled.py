"""Compiles references with torch.compile, one function for each size and element type, within a time limit.

A function is compiled at its first call with that call's sizes as constants, so it is at its best at each size. All
compiling is done before anything is timed. The C++ compiler, ptxas and the like that run when the time is over are
stopped; the report says what was left out and how to include it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from opsmith.benchmark.calls import gradients
from opsmith.benchmark.competitors import Competitor
from opsmith.benchmark.deadline import Deadline, OutOfTime, time_limit
from opsmith.benchmark.workload import Workload
from opsmith.subject.subject import Subject

__all__ = ["Compiled", "Compiler", "compiling", "short_text"]

# The kinds of a size's element type and phase that need a graph of their own: without and with gradients.
_Key = tuple[str, str, str, bool]


@dataclass(frozen=True)
class Compiled:
    """A compiled function and how long that took in seconds, or why there is none."""

    function: Callable[..., Any] | None
    seconds: float
    error: str = ""


class Compiler:
    """Compiles competitors and keeps what came of it."""

    def __init__(self, subject: Subject, device: str, deadline: Deadline) -> None:
        self._subject, self._device, self._deadline = subject, device, deadline
        self._found: dict[_Key, Compiled] = {}

    def compile(self, competitor: Competitor, workload: Workload, *, with_gradient: bool) -> Compiled:
        """Compile a competitor for a size by calling it, where that is not done yet; nothing is raised."""
        key = (competitor.name, workload.label, workload.dtype, with_gradient)
        if key not in self._found:
            self._found[key] = self._compile(competitor, workload, with_gradient)
        return self._found[key]

    def find(self, competitor: Competitor, workload: Workload, *, with_gradient: bool) -> Compiled | None:
        """Return what came of compiling, or None if that was not tried."""
        return self._found.get((competitor.name, workload.label, workload.dtype, with_gradient))

    def _compile(self, competitor: Competitor, workload: Workload, with_gradient: bool) -> Compiled:
        started = time.perf_counter()
        if self._deadline.left_s == 0.0:
            return Compiled(None, 0.0, _not_timed("no time was left to compile it"))
        try:
            with time_limit(self._deadline.left_s), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                function = torch.compile(competitor.function, mode=competitor.mode, dynamic=False)
                self._call(function, workload, with_gradient)
        except OutOfTime:
            spent = time.perf_counter() - started
            return Compiled(None, spent, _not_timed(f"compiling it was stopped after {spent:.0f} s"))
        except Exception as error:
            return Compiled(None, time.perf_counter() - started, f"failed: {short_text(error)}")
        return Compiled(function, time.perf_counter() - started)

    def _call(self, function: Callable[..., Any], workload: Workload, with_gradient: bool) -> None:
        values = workload.inputs(0)
        if with_gradient:
            gradients(self._subject, function, values)
        else:
            with torch.no_grad():
                function(*self._subject.arguments(values), **self._subject.keyword_arguments(values))


@contextmanager
def compiling(device: str) -> Iterator[None]:
    """Let the compiler keep a function for every size: beyond its limit it would run the reference eagerly, silently."""
    import torch._dynamo
    import torch._functorch.config
    import torch._inductor.config

    many = 10_000
    # One after the other in this process on the CPU, where a signal ends it; a GPU's kernels are made by other processes.
    threads = {"compile_threads": 1} if device == "cpu" else {}
    with (
        torch._dynamo.config.patch(recompile_limit=many, accumulated_recompile_limit=many),
        # A backward that reuses the memory of what was saved runs once; it is timed by running it again and again.
        torch._functorch.config.patch(donated_buffer=False),
        torch._inductor.config.patch(threads),
    ):
        yield


def short_text(error: BaseException) -> str:
    """Return an exception in a line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if len(text) <= 200 else f"{text[:197]}..."


def _not_timed(reason: str) -> str:
    return f"not timed: {reason} (--seconds gives more, --size and --against ask for less)"
