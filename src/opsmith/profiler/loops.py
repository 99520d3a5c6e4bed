"""Times one level of a call alone: from Python, from C++, through the dispatcher, and inside the binding.

Each level is a function that takes one sample: the seconds of one call, by name. All of them make the same calls with the
same inputs, so the cost between two levels is the difference of their samples.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from opsmith.profiler.timed import TimedTwin

__all__ = ["Call", "Loop", "cpp_loop", "empty_loop", "python_loop", "timed_loop", "window"]

Call = tuple[tuple[Any, ...], dict[str, Any]]
# Makes so many calls with these arguments, going round; returns the seconds of one, by what they are.
Loop = Callable[[Sequence[Call], int], dict[str, float]]


def window(calls: Sequence[Call], offset: int, count: int) -> list[Call]:
    """Return so many of the calls from an offset on, at most each once: those that a sample goes round through."""
    return [calls[(offset + index) % len(calls)] for index in range(min(count, len(calls)))]


def python_loop(function: Callable[..., Any], example: Call, guard: Callable[[], Any] = nullcontext) -> Loop:
    """Return a level that calls a function as a program in Python does, without what the loop itself takes."""
    loop = _compile(example)

    def sample(calls: Sequence[Call], repeats: int) -> dict[str, float]:
        rows = [(*args, *kwargs.values()) for args, kwargs in calls]
        rows = (rows * (repeats // len(rows) + 1))[:repeats]
        with guard():
            started = time.perf_counter()
            loop(function, rows)
            seconds = time.perf_counter() - started
        return {"call": seconds / repeats}

    return sample


def empty_loop(example: Call) -> Loop:
    """Return what the loop of `python_loop` takes where nothing is called."""
    loop = _compile(example, call=False)

    def sample(calls: Sequence[Call], repeats: int) -> dict[str, float]:
        rows = [(*args, *kwargs.values()) for args, kwargs in calls]
        rows = (rows * (repeats // len(rows) + 1))[:repeats]
        started = time.perf_counter()
        loop(None, rows)
        return {"loop": (time.perf_counter() - started) / repeats}

    return sample


def cpp_loop(bridge: Any, entry: Any, guard: Callable[[], Any] = nullcontext) -> Loop:
    """Return a level that calls an operator through the dispatcher from C++: `call`, and `free` for its results."""

    def sample(calls: Sequence[Call], repeats: int) -> dict[str, float]:
        with guard():
            called, freed = bridge.time_calls(entry, list(calls), repeats)
        return {"call": called, "free": freed}

    return sample


def timed_loop(twin: TimedTwin, call: Loop) -> Loop:
    """Return a level that also reads the clocks inside the binding; `call` makes the calls, of the twin."""

    def sample(calls: Sequence[Call], repeats: int) -> dict[str, float]:
        taken: dict[str, float] = {}

        def run() -> None:
            taken.update(call(calls, repeats))

        parts = twin.read(run)
        return {**taken, **parts}

    return sample


def _compile(example: Call, *, call: bool = True) -> Callable[[Any, Sequence[tuple[Any, ...]]], None]:
    """Return a function that calls another with each row's items as its arguments, written out as a program has them.

    `f(*row)` would be another way through the interpreter than `f(a, b)`.
    """
    args, kwargs = example
    names = [f"a{index}" for index in range(len(args) + len(kwargs))]
    given = [*names[: len(args)], *(f"{name}={value}" for name, value in zip(kwargs, names[len(args) :], strict=True))]
    body = f"f({', '.join(given)})" if call else "pass"
    source = f"def loop(f, rows):\n    for {''.join(f'{name}, ' for name in names) or '_'} in rows:\n        {body}\n"
    space: dict[str, Any] = {}
    exec(compile(source, "<calls>", "exec"), space)
    return space["loop"]  # type: ignore[no-any-return]
