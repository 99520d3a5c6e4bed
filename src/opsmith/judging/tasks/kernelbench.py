"""Reads a KernelBench problem: a file with `Model`, `get_inputs` and `get_init_inputs`.

Its candidates have a class `ModelNew` with the same constructor, forward and state dict.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from opsmith.errors import ArgumentError
from opsmith.judging.candidate import Entry
from opsmith.judging.packings import SEED
from opsmith.judging.task import Task
from opsmith.judging.tasks.files import imported
from opsmith.judging.tasks.modules import Lifted, lifted_module, varied
from opsmith.judging.tasks.seeds import seeded
from opsmith.judging.tasks.symbols import guessed_signature
from opsmith.judging.tasks.trees import as_argument

__all__ = ["is_problem", "read_problem"]

_WHAT = "a KernelBench problem"


def is_problem(path: Path) -> bool:
    """Whether a file declares what a problem does; it is not imported."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return False
    names = {node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    return {"Model", "get_inputs"} <= names


def read_problem(path: Path) -> Task:
    """Return the task of a problem; raises ArgumentError for a file that is not one, or does not run."""
    module = imported(path, _WHAT)
    missing = [name for name in ("Model", "get_inputs") if not callable(getattr(module, name, None))]
    if missing:
        raise ArgumentError(f"{path} has no {' and no '.join(missing)}; {_WHAT} has Model, get_inputs, get_init_inputs")
    problem = _Problem(path, module)
    call = problem.call(SEED)
    model = problem.model(SEED)
    lifted = lifted_module(model, call)

    def inputs(seed: int) -> Mapping[str, Any]:
        weights = varied(lifted.values(problem.model(seed)), seed)
        values = {**dict(zip(lifted.arguments, problem.call(seed), strict=True)), **weights}
        return {name: value.clone() if isinstance(value, Tensor) else value for name, value in values.items()}

    values = inputs(SEED)
    guess = guessed_signature(path.stem, lifted.reference, values, lifted.fixed)
    shapes = {name: tuple(values[name].shape) for name in lifted.weights}
    init = tuple(map(_as_plain, problem.init))
    return Task(
        path.stem,
        "kernelbench",
        lifted.parameters,
        lifted.reference,
        inputs,
        Entry(("ModelNew", "custom_kernel"), "module", lifted.parameters, lifted.weights, shapes, init),
        lifted=lifted.weights,
        signature=guess.signature if guess else None,
        guessed=guess.lines if guess else (),
        path=path,
        notes=_notes(lifted, guess is not None),
    )


class _Problem:
    """What a problem's file makes, under a seed."""

    def __init__(self, path: Path, module: ModuleType) -> None:
        self.path, self.module = path, module
        make = getattr(module, "get_init_inputs", list)
        with seeded(SEED):
            self.init = list(self._of_task(make, "get_init_inputs"))
        # A large module is built for a seed once, and not for each call with that seed.
        self.model = lru_cache(maxsize=2)(self._model)

    def call(self, seed: int) -> list[Any]:
        """Return the arguments of `forward`."""
        with seeded(seed):
            found = self._of_task(self.module.get_inputs, "get_inputs")
        values = list(found.values()) if isinstance(found, Mapping) else list(found)
        return [as_argument(value, f"{self.path}: input {index}") for index, value in enumerate(values)]

    def _model(self, seed: int) -> torch.nn.Module:
        with seeded(seed):
            model = self._of_task(lambda: self.module.Model(*self.init), "Model")
        if not isinstance(model, torch.nn.Module):
            raise ArgumentError(f"{self.path}: Model is a {type(model).__name__}, not a torch.nn.Module")
        return model

    def _of_task(self, make: Any, name: str) -> Any:
        try:
            return make()
        except Exception as error:
            raise ArgumentError(f"{self.path}: {name} raises {type(error).__name__}: {error}") from error


def _as_plain(value: Any) -> Any:
    """Return an argument of the constructor as plain data; raises ArgumentError for what cannot cross to a process."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return {"tuple": [_as_plain(item) for item in value]}
    if isinstance(value, list):
        return [_as_plain(item) for item in value]
    raise ArgumentError(
        f"get_init_inputs has a {type(value).__name__}; a candidate can be built with numbers, texts, None and lists"
    )


def _notes(lifted: Lifted, has_sizes: bool) -> tuple[str, ...]:
    notes = [f"weights are inputs that vary: {', '.join(lifted.weights.values())}"] if lifted.weights else []
    if not has_sizes:
        notes.append("its arguments have no symbols: other sizes are not tried")
    elif lifted.fixed:
        sizes = ", ".join(map(str, sorted(lifted.fixed)))
        notes.append(f"sizes of {sizes} stay: PyTorch does not check those of a recurrent module's weights")
    return tuple(notes)
