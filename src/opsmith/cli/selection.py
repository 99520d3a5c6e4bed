"""What several commands read alike from a command line: modules to import first, sizes by name."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from opsmith.errors import ArgumentError

__all__ = ["import_modules", "read_sizes"]


def import_modules(names: Iterable[str]) -> None:
    """Import what --import names; raises ArgumentError where there is no such module."""
    for name in names:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise ArgumentError(f"--import {name}: {error}") from error


def read_sizes(text: str) -> dict[str, int]:
    """Return what --size gives, such as "B=64,N=4096", by name; raises ArgumentError for what is no number."""
    pairs = [part.partition("=") for part in text.split(",")]
    try:
        return {name.strip(): int(value) for name, _, value in pairs}
    except ValueError:
        raise ArgumentError(f"--size {text}: write names and whole numbers, such as B=64,N=4096") from None
