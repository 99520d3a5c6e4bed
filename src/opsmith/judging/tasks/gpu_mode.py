"""Reads a task of gpu-mode: a folder with reference.py (`generate_input`, `ref_kernel`) and task.yml.

Its candidates have a function `custom_kernel` of what `generate_input` returns.
"""

from __future__ import annotations

import functools
import inspect
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from opsmith.errors import ArgumentError
from opsmith.judging.candidate import Entry
from opsmith.judging.packings import SEED
from opsmith.judging.task import Task, Tolerance
from opsmith.judging.tasks.files import imported
from opsmith.judging.tasks.seeds import seeded
from opsmith.judging.tasks.symbols import guessed_signature
from opsmith.judging.tasks.trees import Tree, as_argument, same_tensor, tensors_of, tree_of

__all__ = ["is_gpu_mode", "read_gpu_mode"]

_WHAT = "a gpu-mode task"
_SUBMISSION = "@SUBMISSION@"


def is_gpu_mode(path: Path) -> bool:
    """Whether a folder, or a file in it, is such a task."""
    return (path / "reference.py").is_file() if path.is_dir() else path.name in ("reference.py", "task.yml")


def read_gpu_mode(path: Path) -> Task:
    """Return the task of a folder; raises ArgumentError for one that does not run, or without calls."""
    folder = path if path.is_dir() else path.parent
    described = _described(folder / "task.yml")
    beside = _files(folder, described)
    module = _imported(beside)
    if missing := [name for name in ("generate_input", "ref_kernel") if not callable(getattr(module, name, None))]:
        raise ArgumentError(f"{folder / 'reference.py'} has no {' and no '.join(missing)}; {_WHAT} has both")
    calls = _calls(folder, described)
    problem = _Problem(folder, module, next(iter(calls.values())))
    posed = {label: functools.partial(problem.inputs, arguments) for label, arguments in calls.items()}
    first = next(iter(posed.values()))
    guess = guessed_signature(folder.name, problem.reference, first(SEED))
    names = problem.tree.names
    entry = Entry(("custom_kernel",), "tuple", names, structure=problem.tree.structure, written=problem.written)
    written = [f"it writes to {', '.join(problem.written)}"] if problem.written else []
    return Task(
        folder.name,
        "gpu-mode",
        names,
        problem.reference,
        first,
        entry,
        posed,
        signature=guess.signature if guess else None,
        guessed=guess.lines if guess else (),
        tolerance=_tolerance(getattr(module, "check_implementation", None)),
        path=folder,
        beside={name: text for name, text in beside.items() if name != "reference.py"},
        notes=tuple(written),
    )


class _Problem:
    """The functions of a task, with what they take as flat arguments."""

    def __init__(self, folder: Path, module: ModuleType, arguments: Mapping[str, Any]) -> None:
        self.folder, self.module = folder, module
        self.has_seed = "seed" in inspect.signature(module.generate_input).parameters
        data = self._generated(arguments, SEED)
        self.tree: Tree = tree_of(data)
        self.written = self._written(self.tree.leaves(data))

    def inputs(self, arguments: Mapping[str, Any], seed: int) -> Mapping[str, Any]:
        """Return the flat arguments of a call, by name."""
        leaves = self.tree.leaves(self._generated(arguments, seed))
        where = f"{self.folder / 'reference.py'}: an input"
        return {name: as_argument(leaf, where) for name, leaf in zip(self.tree.names, leaves, strict=True)}

    def reference(self, *values: Any) -> Any:
        """Return what `ref_kernel` gives; the arguments that it writes to are copies."""
        given = [
            value.clone() if name in self.written and isinstance(value, Tensor) else value
            for name, value in zip(self.tree.names, values, strict=True)
        ]
        found = self.module.ref_kernel(self.tree.filled(given))
        if found is None:
            return tuple(value for name, value in zip(self.tree.names, given, strict=True) if name in self.written)
        return found

    def _generated(self, arguments: Mapping[str, Any], seed: int) -> Any:
        given = {**arguments, "seed": seed} if self.has_seed else arguments
        try:
            with seeded(seed):
                return self.module.generate_input(**given)
        except Exception as error:
            hint = "" if torch.cuda.is_available() else " (there is no GPU here, which its tensors may need)"
            raise ArgumentError(
                f"{self.folder}: generate_input({', '.join(given)}) raises {type(error).__name__}: {error}{hint}"
            ) from error

    def _written(self, leaves: Sequence[Any]) -> tuple[str, ...]:
        """Return the arguments that are outputs which come with the inputs: those that the reference changes, and those
        that look like a result and that nothing depends on."""
        before = [_copied(leaf) for leaf in leaves]
        results = self._results(leaves)
        changed = [not same_tensor(leaf, old) for leaf, old in zip(leaves, before, strict=True) if _is_tensor(leaf)]
        named = [name for name, leaf in zip(self.tree.names, leaves, strict=True) if _is_tensor(leaf)]
        found = {name for name, is_changed in zip(named, changed, strict=True) if is_changed}
        for place, (name, leaf) in enumerate(zip(self.tree.names, before, strict=True)):
            alike = [one for one in results if _is_tensor(leaf) and _is_like(one, leaf)]
            if name in found or not alike:
                continue
            others = [_copied(one) for one in before]
            others[place] = torch.full_like(leaf, 3)
            again = self._results(others)
            if all(same_tensor(one, other) for one, other in zip(results, again, strict=True)):
                found.add(name)
        return tuple(name for name in self.tree.names if name in found)

    def _results(self, leaves: Sequence[Any]) -> list[Tensor]:
        with torch.no_grad():
            found = self.module.ref_kernel(self.tree.filled(leaves))
        return [one.clone() for one in tensors_of(found)]


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _is_like(result: Tensor, leaf: Tensor) -> bool:
    """Whether a result fits into an argument; a sum may be a number, and its output have one element."""
    return leaf.dtype == result.dtype and leaf.numel() == result.numel()


def _described(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    try:
        import yaml
    except ImportError:
        raise ArgumentError(f"{path} is YAML, which needs PyYAML: pip install pyyaml") from None
    try:
        found = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ArgumentError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ArgumentError(f"{path} has no mapping at its top; {_WHAT} has files, tests and benchmarks there")
    return found


def _files(folder: Path, described: Mapping[str, Any]) -> dict[str, bytes]:
    """Return what lies beside a submission, by name."""
    listed = described.get("files") or [{"name": one.name, "source": one.name} for one in folder.glob("*.py")]
    found: dict[str, bytes] = {}
    for one in listed:
        name, source = str(one.get("name", "")), str(one.get("source", ""))
        if source == _SUBMISSION or not name.endswith(".py") or Path(name).name != name:
            continue
        if not (folder / source).is_file():
            raise ArgumentError(f"{folder / 'task.yml'} lists {source}, which is not there")
        found[name] = (folder / source).read_bytes()
    if "reference.py" not in found:
        raise ArgumentError(f"{folder} has no reference.py, so it is not {_WHAT}")
    return found


def _imported(files: Mapping[str, bytes]) -> ModuleType:
    """Import reference.py with its files beside it; functions that open files later are not served."""
    folder = Path(tempfile.mkdtemp(prefix="opsmith-task-"))
    try:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return imported(folder / "reference.py", _WHAT)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _calls(folder: Path, described: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the arguments of `generate_input` for each call, by label, without their seeds."""
    found: dict[str, dict[str, Any]] = {}
    for kind in ("tests", "benchmarks"):
        for one in described.get(kind) or []:
            arguments = {name: value for name, value in one.items() if name != "seed"}
            words = ", ".join(f"{name}={value}" for name, value in arguments.items()) or "no arguments"
            found.setdefault(words, arguments)
    if not found:
        raise ArgumentError(f"{folder / 'task.yml'} has no tests; {_WHAT} lists the arguments of generate_input there")
    return found


def _tolerance(check: Callable[..., Any] | None) -> Tolerance | None:
    """Return the tolerance that a check compares with: bound to it by name, in its closure, or as its defaults."""
    found: dict[str, Any] = {}
    if isinstance(check, functools.partial):
        found |= check.keywords
    elif inspect.isfunction(check):
        found |= {name: one.default for name, one in inspect.signature(check).parameters.items()}
        for name, value in inspect.getclosurevars(check).nonlocals.items():
            found |= value if isinstance(value, dict) else {name: value}
    absolute, relative = found.get("atol"), found.get("rtol")
    if isinstance(absolute, int | float) and isinstance(relative, int | float):
        return Tolerance(float(absolute), float(relative), "check_implementation of the task")
    return None
