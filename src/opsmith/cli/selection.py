"""What several commands read alike from a command line: modules to import first, functions and sizes by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from opsmith.errors import ArgumentError

__all__ = ["import_modules", "named_functions", "read_sizes", "refuse_several"]


def import_modules(names: Iterable[str]) -> None:
    """Import what --import names; raises ArgumentError where there is no such module."""
    for name in names:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise ArgumentError(f"--import {name}: {error}") from error


def named_functions(reference: str | None, examples: str | None) -> dict[str, Callable[..., Any]]:
    """Return what --reference and --examples name, where they are given; raises ArgumentError where there is no such."""
    from opsmith.subject.find import find_attribute

    named = {"reference": reference, "examples": examples}
    return {name: find_attribute(text, f"--{name}") for name, text in named.items() if text is not None}


def refuse_several(path: str, operators: Sequence[Any], given: Iterable[str]) -> None:
    """Raise ArgumentError where an option is given that is for one operator, and PATH has several or none."""
    option = next(iter(given), None)
    if option is not None and len(operators) != 1:
        raise ArgumentError(f"--{option} is for one operator; {path} has {len(operators)}, name one as {path}::name")


def read_sizes(text: str) -> dict[str, int]:
    """Return what --size gives, such as "B=64,N=4096", by name; raises ArgumentError for what is no number."""
    pairs = [part.partition("=") for part in text.split(",")]
    try:
        return {name.strip(): int(value) for name, _, value in pairs}
    except ValueError:
        raise ArgumentError(f"--size {text}: write names and whole numbers, such as B=64,N=4096") from None
