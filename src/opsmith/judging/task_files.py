"""Reads a task from a file or an object: `load_task` chooses how, by what is there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NoReturn

from opsmith.benchmark.deadline import OutOfTime, time_limit
from opsmith.errors import ArgumentError
from opsmith.judging.bounded_task import OverLimit, without_warnings
from opsmith.judging.candidate import Entry
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge
from opsmith.judging.task import Task
from opsmith.judging.tasks.definitions import read_operator
from opsmith.judging.tasks.flashinfer import is_definition, read_flashinfer
from opsmith.judging.tasks.functions import read_function
from opsmith.judging.tasks.gpu_mode import is_gpu_mode, read_gpu_mode
from opsmith.judging.tasks.kernelbench import is_problem, read_problem
from opsmith.judging.watchdog import watching
from opsmith.runtime.operator import Operator
from opsmith.subject.find import find_operators

__all__ = ["load_task", "refused_task"]

_Examples = Callable[[], Iterable[Any]] | Iterable[Any] | None

# What others' tasks are recognized by, and read with; the first that fits counts.
_FORMS: tuple[tuple[Callable[[Path], bool], Callable[[Path], Task]], ...] = (
    (is_gpu_mode, read_gpu_mode),
    (is_definition, read_flashinfer),
    (is_problem, read_problem),
)
_ENDINGS = (".py", ".json", ".yml")
_KNOWN = (
    "a KernelBench problem (Model, get_inputs), a FlashInfer-Bench definition (.json), a gpu-mode folder (reference.py, "
    "task.yml), or operators of opsmith's (package, package::operator, a .py file)"
)


def load_task(
    task: Any,
    *,
    examples: _Examples = None,
    seconds: float | None = None,
    give_up: Callable[[Task], None] | None = None,
) -> Task:
    """Return the task that a path, a definition or a function with examples stands for; a Task is itself.

    Its reference is called, to see what sizes it takes. One that is not read within `seconds` is a task that is refused
    when it is judged; `give_up` gets it, in another thread, where a call does not come back at all. Raises ArgumentError
    for what is not a task, with what was found and what is needed.
    """
    if isinstance(task, Task):
        return task
    if seconds is None:
        with without_warnings():
            return _read(task, examples)
    text = f"it is not read within {seconds:.0f} s: its reference, or what makes its inputs, does not return"
    refused = refused_task(task, Charge(Refusal.SLOW_REFERENCE, text))
    watched = watching(seconds, lambda: give_up(refused)) if give_up is not None else nullcontext()
    try:
        with watched, time_limit(seconds), without_warnings():
            return _read(task, examples)
    except OutOfTime:
        return refused


def refused_task(task: Any, charge: Charge) -> Task:
    """Return a task in the place of one that cannot be read: a judgement of it is the charge."""

    def refuse(*_: Any) -> NoReturn:
        raise OverLimit(charge)

    path = Path(task) if isinstance(task, str | Path) else None
    name = path.stem if path is not None else getattr(task, "__name__", "task")
    is_there = path is not None and path.exists()
    return Task(name, "not read", (), refuse, refuse, Entry(()), path=path if is_there else None)


def _read(task: Any, examples: _Examples) -> Task:
    if isinstance(task, Path) or (isinstance(task, str) and Path(task).exists()):
        path = Path(task)
        for is_one, read in _FORMS:
            if path.exists() and is_one(path):
                return read(path)
        task = str(task)
    if isinstance(task, str):
        return _of_name(task, examples)
    return _of_callable(task, examples)


def _of_name(name: str, examples: _Examples) -> Task:
    where = name.partition("::")[0]
    if ("/" in where or Path(where).suffix in _ENDINGS) and not Path(where).exists():
        raise ArgumentError(f"there is no task {where}; a task is {_KNOWN}")
    # `package:operator` is how Python's entry points are named.
    head, colon, tail = name.partition(":")
    found = find_operators(f"{head}::{tail}" if colon and not tail.startswith(":") else name)
    if len(found) > 1:
        names = ", ".join(one.definition.name for one in found)
        raise ArgumentError(f"{name} has several operators ({names}); name one: {name}::{found[0].definition.name}")
    return _of_callable(found[0], examples)


def _of_callable(found: Any, examples: _Examples) -> Task:
    if isinstance(found, Operator):
        return read_operator(found)
    if callable(found) and examples is not None:
        return read_function(found, examples)
    if callable(found):
        raise ArgumentError(f"{found!r} has no examples, so nothing says what to call it with; pass examples=")
    raise ArgumentError(f"{found!r} is not a task; a task is {_KNOWN}, or a function with examples")
