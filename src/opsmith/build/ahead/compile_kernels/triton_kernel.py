"""Imports a Triton kernel, and finds the functions and files that it depends on."""

from __future__ import annotations

import inspect
import types
from pathlib import Path
from typing import Any

from .importing import import_file, imported_files

__all__ = ["RefusalError", "closure", "files_of", "import_kernel", "place_of"]


class RefusalError(Exception):
    """What a kernel needs and a launcher does not offer."""


def import_kernel(file: Path, module: str, name: str) -> Any:
    """Import a kernel's file and return its function of Triton's; raises RefusalError if it has none of the name."""
    function = getattr(import_file(file, module), name)
    while hasattr(function, "fn") and not _is_jit(function):
        function = function.fn  # autotuners and heuristics are around it
    if not _is_jit(function):
        raise RefusalError(f"{name} is {type(function).__name__}, not a function of @triton.jit")
    return function


def _is_jit(function: Any) -> bool:
    from triton.runtime.jit import JITFunction

    return isinstance(function, JITFunction)


def closure(function: Any) -> list[Any]:
    """Return a function and all those of Triton's that it calls, directly or not."""
    found: list[Any] = []
    todo = [function]
    while todo:
        each = todo.pop()
        if each in found:
            continue
        found.append(each)
        scope = each.get_capture_scope() if hasattr(each, "get_capture_scope") else each.fn.__globals__
        for name in each.fn.__code__.co_names:
            value = scope.get(name)
            if _is_jit(value):
                todo.append(value)
            elif isinstance(value, types.ModuleType):
                todo += [item for other in each.fn.__code__.co_names if _is_jit(item := getattr(value, other, None))]
    return found


def place_of(function: Any) -> tuple[str, int]:
    """Return the file of a kernel and the line of its `def`: Triton's own names for them change with its releases."""
    code = function.fn.__code__
    source, first = inspect.getsourcelines(code)
    return code.co_filename, first + next((at for at, line in enumerate(source) if line.lstrip().startswith("def ")), 0)


def files_of(function: Any, before: set[str]) -> list[str]:
    """Return the files that decide what is compiled: those that the kernel's import has run, and those of its functions."""
    files = {file for file, _ in map(place_of, closure(function)) if not file.startswith(_triton_folder())}
    return sorted(files | imported_files(before))


def _triton_folder() -> str:
    import triton

    assert triton.__file__ is not None
    return str(Path(triton.__file__).parent)
