"""Reads the text of a cell: a module in Python, and after each line `%%file NAME` a file of that name beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from opsmith.errors import DefinitionError
from opsmith.store import digest

__all__ = ["DEFINITION", "Cell", "read_cell"]

DEFINITION = "__init__.py"

_MARK = "%%"
_FILE = re.compile(r"%%file[ \t]+(?P<name>\S+)\s*")
_DIGITS = 8  # of the text's digest, in the module's name


@dataclass(frozen=True)
class Cell:
    """The texts of a cell by file name, `__init__.py` first, and the name of the module that they make.

    The name follows from the texts, so an edited cell is another module with a namespace of its own in torch.ops: what
    an earlier version gave stays valid. In each text, a line has the number that it has in the cell.
    """

    module: str
    files: Mapping[str, str]

    def unnumbered(self) -> dict[str, str]:
        """Return the texts as files of a package, which begin where their content does."""
        return {name: text.lstrip("\n") for name, text in self.files.items()}


def read_cell(text: str, *, first_line: int = 2) -> Cell:
    """Return what a cell holds below its `%%opsmith` line; raises DefinitionError for what cannot be files."""
    contents: dict[str, list[str]] = {DEFINITION: []}
    starts = {DEFINITION: first_line}
    name = DEFINITION
    for number, line in enumerate(text.splitlines(), first_line):
        if line.startswith(_MARK):
            name = _file_name(line, number, contents)
            contents[name], starts[name] = [], number + 1
        else:
            contents[name].append(line)
    files = {name: "\n" * (starts[name] - 1) + "\n".join(lines).rstrip() + "\n" for name, lines in contents.items()}
    return Cell(f"cell_{digest(*(part for item in files.items() for part in item))[:_DIGITS]}", files)


def _file_name(line: str, number: int, known: Mapping[str, object]) -> str:
    """Return the name that a line begins the file of."""
    match = _FILE.fullmatch(line)
    if match is None:
        raise DefinitionError(
            f"line {number} of the cell is {line.strip()!r}; a file of the cell begins with a line such as "
            "`%%file lowpass.cpp`"
        )
    name = match["name"]
    if Path(name).name != name or name.startswith(".") or name.endswith(".py"):
        raise DefinitionError(
            f"line {number} of the cell: {name} is not the name of a kernel or a header beside the definition, such as "
            "lowpass.cpp"
        )
    if name in known:
        raise DefinitionError(f"line {number} of the cell: it has `%%file {name}` twice")
    return name
