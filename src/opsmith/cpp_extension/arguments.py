"""Reads the arguments of `load` and `load_inline`: leniently, as PyTorch does, and without changing any."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from typing import Any

from opsmith.errors import ArgumentTypeError, ArgumentValueError

__all__ = [
    "Flags",
    "Functions",
    "Paths",
    "Texts",
    "as_documented",
    "as_flags",
    "as_link_flags",
    "as_paths",
    "as_texts",
]

Texts = str | Iterable[str]
Paths = str | PathLike[str] | Iterable[str | PathLike[str]]
Flags = str | Sequence[str] | None
Functions = str | Sequence[str] | Mapping[str, str] | None


def as_flags(flags: Flags, argument: str) -> list[str]:
    """Return flags as words; each text may hold several and is split as a shell does. Raises ArgumentError."""
    texts = [flags] if isinstance(flags, str) else list(flags or ())
    try:
        return [word for text in texts for word in shlex.split(text)]
    except ValueError as error:
        raise ArgumentValueError(
            f"{argument} is {texts!r}, which cannot be split like a shell command: {error}"
        ) from error
    except (TypeError, AttributeError):
        raise ArgumentTypeError(f"{argument} must be a list of strings; got {texts!r}") from None


def as_link_flags(flags: Flags) -> list[str]:
    """Return flags for the linker. Flags written for PyTorch, which halves each $, contain $$ORIGIN."""
    return [word.replace("$$ORIGIN", "$ORIGIN") for word in as_flags(flags, "extra_ldflags")]


def as_texts(value: Texts | None, argument: str) -> list[str]:
    """Return one text, or several, as a list. Raises ArgumentTypeError."""
    texts = [value] if isinstance(value, str) else list(value or ())
    if not all(isinstance(text, str) for text in texts):
        raise ArgumentTypeError(f"{argument} must be a string or a list of strings")
    return texts


def as_paths(value: Paths | None, argument: str) -> list[str]:
    """Return one path, or several, as a list, without white space around them. Raises ArgumentTypeError."""
    try:
        many: Any = () if value is None else [value] if isinstance(value, str | PathLike) else value
        return [fspath(path).strip() for path in many]
    except TypeError:
        raise ArgumentTypeError(f"{argument} must be a path or a list of paths") from None


def as_documented(functions: Functions) -> dict[str, str]:
    """Return functions with their doc texts; a name alone is its own. Raises ArgumentValueError for anything else."""
    if functions is None:
        return {}
    if isinstance(functions, Mapping):
        return {str(name): str(doc) for name, doc in functions.items()}
    names = [functions] if isinstance(functions, str) else functions
    if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
        raise ArgumentValueError(f"functions must be a name, a list of names or a dict; got {functions!r}")
    return {name: name for name in names}
