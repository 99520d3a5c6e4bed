"""Reads a task from a file or an object: `load_task` chooses the adapter."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from opsmith.errors import ArgumentError
from opsmith.judging.candidate import Entry
from opsmith.judging.task import Task

__all__ = ["load_task"]


def load_task(task: Any, *, examples: Callable[[], Iterable[Any]] | Iterable[Any] | None = None) -> Task:
    """Return the task that a path, a definition or a function with examples stands for; a Task is itself.

    Raises ArgumentError for what is no task, with what was found and what is needed.
    """
    if isinstance(task, Task):
        return task
    if isinstance(task, str | Path):
        raise ArgumentError(f"{task} is not a task that opsmith judge knows")
    if callable(task) and examples is not None:
        return _of_function(task, list(examples() if callable(examples) else examples))
    raise ArgumentError(f"{task!r} is not a task: pass a path, a definition, or a function with examples=")


def _of_function(function: Callable[..., Any], examples: list[Any]) -> Task:
    names = tuple(inspect.signature(function).parameters)
    calls = [dict(one) if isinstance(one, Mapping) else dict(zip(names, one, strict=True)) for one in examples]
    posed = {f"example {number}": _maker(call) for number, call in enumerate(calls)}
    parameters = tuple(calls[0])
    name = getattr(function, "__name__", "function")
    entry = Entry((name,), "arguments", parameters)
    return Task(name, "function", parameters, function, next(iter(posed.values())), entry, posed)


def _maker(call: Mapping[str, Any]) -> Callable[[int], Mapping[str, Any]]:
    def inputs(seed: int) -> Mapping[str, Any]:
        generator = torch.Generator().manual_seed(seed)

        def other(value: Any) -> Any:
            if not isinstance(value, Tensor) or not value.dtype.is_floating_point:
                return value.clone() if isinstance(value, Tensor) else value
            return torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value.dtype)

        return {name: other(value) for name, value in call.items()}

    return inputs
