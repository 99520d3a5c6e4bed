"""Tries one library of an operator in a child process: properties in order, until the first that fails.

The child is forked from a process that has declared the operator and not loaded it, loads the mutant's library in its
place, and ends; PyTorch could not unload it. What a fault in a kernel cannot show in (how the operator is registered, traced
and compiled) is left out.
"""

from __future__ import annotations

import contextlib
import resource
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

from opsmith.checker.outcome import Outcome, not_run_for
from opsmith.checker.process.child import Ended, Send, in_child
from opsmith.checker.process.clock import now_s, wake
from opsmith.checker.process.schedule import Task, allowance
from opsmith.checker.process.slow_sizes import without_slow_sizes
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.table import PROPERTIES
from opsmith.checker.tasks import tasks_of
from opsmith.runtime.load import Obtained
from opsmith.runtime.operator import Operator, load_module
from opsmith.subject.subject import Subject, subject_of
from opsmith.toolchain.resources import available_memory_bytes

__all__ = ["Limits", "Seen", "Trial", "loaded_subject", "try_library"]

# Where most faults show, and cheaply. They are tried in each element type, and then the others in the first.
_FIRST = ("value", "sizes", "magnitude", "special values", "strides", "arguments", "empty", "gradient")
_THEN = (
    "outputs written",
    "writes outside",
    "reads outside",
    "inputs unchanged",
    "determinism",
    "threads",
    "state",
    "large",
    "second gradient",
    "bad arguments",
    "aliasing",
    "memory growth",
)
# float32 shows most, and a half type the rest; what a narrower float hides shows in float64 alone.
_DTYPES = ("float32", "bfloat16", "float64", "float16")
# What a property may take on top of what there is: a mutant's loop may ask for memory without end.
_LEAST_MEMORY_BYTES, _PART_OF_MEMORY = 4 << 30, 4


@dataclass(frozen=True)
class Limits:
    """How long a trial may take: `seconds` for the properties that try as many inputs as there is time for (see `clock`),
    by default what a check has; `silence_s` until a call counts as hanging, and `longest_s` for the whole.
    """

    seconds: float = 24.0
    silence_s: float = 20.0
    longest_s: float = 240.0


@dataclass(frozen=True)
class Seen:
    """What a trial has seen: the first property that failed and its words, or "" if all hold.

    `failures` are all of them, of a trial that goes on, and `passed` how many properties held. `silence_s` is the longest
    time between two calls, `left_out` are sizes for which the reference is slow. `error` is what a property's own code
    has raised.
    """

    named: str = ""
    message: str = ""
    failures: tuple[str, ...] = ()
    silence_s: float = 0.0
    left_out: frozenset[str] | None = None
    passed: int = 0
    error: str = ""


@dataclass(frozen=True)
class Trial:
    """What is tried: an operator on a device. `ignored` are properties, as `name, dtype`, that the original fails."""

    operator: Operator
    device: str
    seed: int = 0
    dtypes: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    ignored: frozenset[str] = frozenset()
    left_out: frozenset[str] | None = None
    goes_on: bool = False
    limits: Limits = field(default_factory=Limits)


def try_library(trial: Trial, library: Path) -> Seen:
    """Return what the properties of a trial see of a library; a crash and a hang count as failures."""
    doing, longest, last = "loading", 0.0, time.monotonic()
    until_s = last + trial.limits.longest_s
    for message in in_child(lambda send: _try(trial, library, send), silence_s=trial.limits.silence_s, until_s=until_s):
        now = time.monotonic()
        longest, last = max(longest, now - last), now
        if isinstance(message, Seen):
            return replace(message, silence_s=longest)
        if isinstance(message, Ended):
            if message.is_late:
                return Seen(silence_s=longest)  # it was slow, and nothing was wrong
            words = "it hangs" if message.hung else f"it crashes: {message.crash or 'the process ended'}"
            return Seen(doing, words, (doing,), longest)
        doing = message or doing
    raise AssertionError("a child ends with an Ended")


def _try(trial: Trial, library: Path, send: Send) -> None:
    """Load the library and check the properties, in the child."""
    subject = loaded_subject(trial, library)
    tasks = _tasks(trial, tasks_of(subject, PROPERTIES, trial.dtypes))
    left_s, failures = trial.limits.seconds, []
    wake(trial.device)
    first: tuple[str, str] = ("", "")
    passed, error = 0, ""
    for index, task in enumerate(tasks):
        name = f"{task.item.name}, {task.column.dtype}" if task.column.dtype else task.item.name
        if name in trial.ignored:
            continue
        send(name)
        context = Context(
            subject,
            task.column.device,
            task.dtypes,
            tell=lambda case: send(""),
            seconds=allowance(tasks[index:], left_s, inf, time.monotonic()).seconds,
            is_brief=True,
        )
        started = now_s(trial.device)
        outcome = _run(task, context, is_limited=not trial.goes_on)
        if task.item.weight:
            left_s -= now_s(trial.device) - started
        passed += outcome.state == "passed"
        error = error or (outcome.note if outcome.is_error else "")
        if outcome.state == "failed":
            failures.append(name)
            if len(failures) == 1:
                first = name, outcome.findings[0].message.partition("\n")[0][:300]
            if not trial.goes_on:
                break
    send(Seen(*first, tuple(failures), 0.0, subject.left_out, passed, error))


def loaded_subject(trial: Trial, library: Path) -> Subject:
    """Load a library in a child process, and return what is checked."""
    load_module(trial.operator.definition.module, obtained=Obtained(library, (trial.device,)))
    subject = subject_of(trial.operator, devices=(trial.device,), seed=trial.seed)
    return without_slow_sizes(subject) if trial.left_out is None else replace(subject, left_out=trial.left_out)


def _run(task: Task, context: Context, *, is_limited: bool) -> Outcome:
    try:
        with warnings.catch_warnings(), _less_memory(task) if is_limited else contextlib.nullcontext():
            warnings.simplefilter("ignore")
            return task.item.run(context)
    except Exception as error:
        return not_run_for(error)  # as in a check: it says nothing of the kernel


def _tasks(trial: Trial, tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks of a trial in its order."""
    wanted = [name for name in (*_FIRST, *_THEN) if not trial.properties or name in trial.properties]
    by_place: Mapping[tuple[str, str], Task] = {(task.item.name, task.column.dtype): task for task in tasks}
    known = list(dict.fromkeys(dtype for _, dtype in by_place if dtype))
    dtypes = sorted(known, key=lambda dtype: _DTYPES.index(dtype) if dtype in _DTYPES else len(_DTYPES)) or [""]
    order = [(name, dtype) for dtype in dtypes for name in wanted if name in _FIRST]
    order += [(name, dtype) for name in wanted if name in _THEN for dtype in (dtypes[0], "")]
    return [by_place[place] for place in dict.fromkeys(order) if place in by_place]


@contextlib.contextmanager
def _less_memory(task: Task) -> Iterator[None]:
    """Have an allocation fail before it takes the memory of others; `large` needs addresses, which count as memory."""
    least, most = resource.getrlimit(resource.RLIMIT_DATA)
    # A GPU's driver takes much of it.
    if task.item.name != "large" and task.column.device == "cpu":
        with contextlib.suppress(ValueError, OSError):
            available = available_memory_bytes() or 0
            more = max(_LEAST_MEMORY_BYTES, available // _PART_OF_MEMORY)
            resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + more, most))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, (least, most))


def _data_bytes() -> int:
    """Return how much memory this process has for data, by Linux's count."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) << 10
    raise OSError("no VmData")
