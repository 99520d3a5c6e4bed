"""Reads what several commands have in common: modules to import first, functions and sizes by name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from opsmith.errors import ArgumentError, DefinitionError

__all__ = [
    "import_modules",
    "read_function",
    "read_sizes",
    "refuse_missing_gpu",
    "refuse_several",
    "refuse_unwritable",
    "usage_errors",
]


def import_modules(names: Iterable[str]) -> None:
    """Import what --import names; raises ArgumentError if the module cannot be imported."""
    from opsmith.build.discover import import_named

    for name in names:
        try:
            import_named(name, name)
        except DefinitionError as error:
            raise ArgumentError(f"--import {name}: {error}") from error


def read_function(text: str, flag: str) -> Callable[..., Any]:
    """Return the function that an option names as MODULE:FUNCTION; raises ArgumentError if there is none."""
    from opsmith.subject.find import find_attribute

    found: Callable[..., Any] = find_attribute(text, flag)
    return found


def refuse_several(path: str, operators: Sequence[Any], flags: Iterable[str]) -> None:
    """Raise ArgumentError if an option is given that is for one operator, and PATH has several or none."""
    flag = next(iter(flags), None)
    if flag is not None and len(operators) != 1:
        raise ArgumentError(f"{flag} is for one operator; {path} has {len(operators)}, choose one with {path}::name")


def refuse_missing_gpu(device: str | None) -> None:
    """Raise ArgumentError if --device names a GPU that torch does not see."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise ArgumentError("--device cuda: torch does not see a GPU")


def refuse_unwritable(*files: Path | None) -> None:
    """Raise ArgumentError for a file that cannot be written at the end of long work; makes its folder."""
    for file in files:
        if file is None:
            continue
        is_new = not file.exists()
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("a"):
                pass
            if is_new:
                file.unlink()
        except OSError as error:
            raise ArgumentError(f"{file} cannot be written: {error.strerror}") from error


@contextmanager
def usage_errors() -> Iterator[None]:
    """Import modules from the current folder, as `python -m` does, and report wrong arguments as a command line's.

    Raises UnsupportedTorchError first, for what is imported within needs what an old torch may not have.
    """
    from opsmith.toolchain.torch_install import require_torch

    require_torch()
    sys.path.insert(0, str(Path.cwd()))
    try:
        yield
    except (ArgumentError, DefinitionError) as error:
        raise click.UsageError(str(error)) from error


def read_sizes(text: str, flag: str) -> dict[str, int]:
    """Return sizes by name, as in "B=64,N=4096"; raises ArgumentError for anything but whole numbers."""
    pairs = [part.partition("=") for part in text.split(",")]
    try:
        return {name.strip(): int(value) for name, _, value in pairs}
    except ValueError:
        raise ArgumentError(f"{flag} {text}: write names and whole numbers, such as B=64,N=4096") from None
