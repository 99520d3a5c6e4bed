"""Searches PATH for programs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from opsmith import _env
from opsmith.errors import ArgumentError, MissingToolkitError

__all__ = ["chosen_toolkit", "executables", "is_executable", "resolve_program"]


def chosen_toolkit(variable: str) -> Path | None:
    """Return the toolkit's folder that a variable names; MissingToolkitError if it begins with a home that is not known."""
    try:
        return _env.read_path(variable)
    except ArgumentError as error:
        raise MissingToolkitError(str(error)) from None


def is_executable(path: Path) -> bool:
    """Tell whether a path is a file that this user may run."""
    return path.is_file() and os.access(path, os.X_OK)


def executables(name: str) -> Iterator[Path]:
    """Yield every program of that name on PATH, the first found first."""
    for folder in (_env.read("PATH") or os.defpath).split(os.pathsep):
        # Most folders do not have it; no Path is made for those.
        candidate = os.path.join(folder or os.curdir, name)  # noqa: PTH118
        if os.access(candidate, os.X_OK) and is_executable(path := Path(candidate).absolute()):
            yield path


def resolve_program(word: str) -> Path | None:
    """Return the program that a command's first word means: a path, or a name on PATH; None if there is none."""
    if os.sep in word:
        try:
            path = Path(word).expanduser().absolute()
        except RuntimeError:  # of pathlib: the home that it begins with is not known
            return None
        return path if is_executable(path) else None
    return next(executables(word), None)
