"""Imports the file of a task, with what lies beside it, which the process forgets."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from opsmith.errors import ArgumentError

__all__ = ["imported"]


def imported(path: Path, what: str) -> ModuleType:
    """Return a task's file as a module; raises ArgumentError with what it raises.

    Its folder is on the path meanwhile. What it imports from there is forgotten afterwards: two tasks may each have a
    utils.py.
    """
    spec = importlib.util.spec_from_file_location(f"opsmith_task_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ArgumentError(f"{path} is not a Python file, so it is not {what}")
    module = importlib.util.module_from_spec(spec)
    with _beside(path.parent):
        # TorchDynamo and dataclasses look a module up by its name.
        sys.modules[spec.name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise ArgumentError(f"{path}: {what} cannot be imported: {type(error).__name__}: {error}") from error
    return module


@contextmanager
def _beside(folder: Path) -> Iterator[None]:
    names = {one.stem for one in folder.glob("*.py")}
    kept = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(kept)
