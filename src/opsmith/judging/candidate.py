"""Describes a candidate as plain data: its file, and how what stands in it is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from opsmith.errors import ArgumentError

__all__ = ["Candidate", "Entry", "Packing", "read_candidate"]

Packing = Literal["arguments", "tuple", "keywords", "destination", "module"]


@dataclass(frozen=True)
class Entry:
    """How a candidate is called; it crosses to the candidate's process as JSON.

    `names` are those that its function or class may have in the file, the first that is there counts. `packing` says
    what becomes of the flat arguments: "arguments" by position, "tuple" one tuple of them (gpu-mode), "keywords" by
    name, "destination" by position and after them the outputs to write, "module" a class that is built once with `init`
    and called with those arguments that `lifted` does not map to a name in its state dict.

    `parameters` are the task's, and `shapes` those of its lifted ones as a module is built. `init` has numbers, texts,
    None and lists of these; a tuple is {"tuple": [...]}. `outputs` are (shape, dtype) of each output for "destination"; a
    size is a number, the name of an int parameter, or "parameter.dim" for that of a tensor. `structure` is what "tuple"
    packs the arguments into where that is more than a tuple: their positions in lists, {"tuple": [...]} and {"dict":
    {...}}. `written` are parameters that a candidate may write to: it gets copies of them, which are its results where it
    returns None. `results` are the names of results, in the task's order, which those of a dictionary have as keys.
    """

    names: tuple[str, ...]
    packing: Packing = "arguments"
    parameters: tuple[str, ...] = ()
    lifted: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    init: tuple[Any, ...] = ()
    outputs: tuple[tuple[tuple[int | str, ...], str], ...] = ()
    structure: Any = None
    written: tuple[str, ...] = ()
    results: tuple[str, ...] = ()


@dataclass(frozen=True)
class Candidate:
    """A candidate's file, or a folder with one named main.py; `files` are bytes by path."""

    path: Path
    main: str
    files: Mapping[str, bytes]

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return self.path.stem if self.main == self.path.name else self.path.name


_MOST_BYTES = 64 << 20


def read_candidate(path: str | Path) -> Candidate:
    """Return the candidate of a file, or of a folder with a main.py; raises ArgumentError where there is none.

    It is read once: what is judged is what stood there then.
    """
    path = Path(path)
    if path.is_file():
        return Candidate(path, path.name, {path.name: path.read_bytes()})
    if not (path / "main.py").is_file():
        what = "has no main.py" if path.is_dir() else "does not exist"
        raise ArgumentError(f"the candidate {path} {what}; give a file, or a folder whose main.py has the function")
    files = [one for one in sorted(path.rglob("*")) if one.is_file() and not one.is_symlink()]
    if sum(one.stat().st_size for one in files) > _MOST_BYTES:
        raise ArgumentError(
            f"the folder {path} has more than {_MOST_BYTES >> 20} MiB; give the candidate's files alone"
        )
    return Candidate(path, "main.py", {str(one.relative_to(path)): one.read_bytes() for one in files})
