"""Runs a guide as its reader would: writes the files that it shows, runs its code, and compares what its sessions print.

    ```python title="forms.py"      a file, or its next part; all files are written first
    ```cpp title="forms.cpp"        likewise
    ```python                       code that runs, in the order of the page
    ```pycon                        a session whose output is compared, tracebacks by their last line
    ```console                      commands, which are not run here

One process runs a page, so a page's module of operators is built once.
"""

from __future__ import annotations

import doctest
import importlib
import linecache
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Block", "blocks_of", "check_prototypes", "run_page", "write_files"]

_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file that it is part of, its text, and the line of the page it begins at."""

    language: str
    file: str | None
    text: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(match[1], match[2], match[3], text.count("\n", 0, match.start()) + 2) for match in _BLOCK.finditer(text)
    ]


def write_files(blocks: Iterable[Block], folder: Path) -> list[Path]:
    """Write the files of a page and return their paths."""
    parts: dict[str, list[str]] = {}
    for block in blocks:
        if block.file is not None:
            parts.setdefault(block.file, []).append(block.text)
    for name, texts in parts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n\n".join(texts) if path.suffix == ".py" else "\n".join(texts), encoding="utf-8")
    return [folder / name for name in parts]


def run_page(page: Path, folder: Path) -> None:
    """Run a page's code and sessions among its files in `folder`, and compare its kernels with their prototypes."""
    sys.path.insert(0, str(folder))
    blocks = blocks_of(page)
    files = write_files(blocks, folder)
    names: dict[str, object] = {"__name__": page.stem.replace("-", "_")}
    wrong: list[str] = []
    for block in blocks:
        if block.file is not None:
            continue
        if block.language == "python":
            _run(block, page, names)
        elif block.language == "pycon":
            wrong += _differences(block, page, names)
    assert not wrong, "".join(wrong)
    for path in files:
        if path.suffix == ".py":
            check_prototypes(path)


def check_prototypes(module: Path) -> None:
    """Assert that each kernel of a module begins as `opsmith stub` prints it."""
    from opsmith.codegen.prototype import prototype
    from opsmith.runtime.operator import operators_of

    importlib.import_module(module.stem)
    for operator in operators_of(module.stem):
        for device, kernel in operator.definition.kernels.items():
            source = " ".join(kernel.sources[0].read_text(encoding="utf-8").split())
            assert f"{prototype(operator.definition, device)} {{" in source, prototype(operator.definition, device)


def _run(block: Block, page: Path, names: dict[str, object]) -> None:
    # Under a name by which inspect finds the source: TorchScript and the check read it.
    name = f"<{page.name}:{block.line}>"
    linecache.cache[name] = (len(block.text), None, block.text.splitlines(keepends=True), name)
    exec(compile(block.text, name, "exec"), names)


def _differences(block: Block, page: Path, names: dict[str, object]) -> list[str]:
    """Return what a session prints otherwise than the page shows."""
    test = doctest.DocTestParser().get_doctest(block.text, {}, page.name, str(page), block.line - 1)
    assert test.examples, f"{page}:{block.line}: a session without a line that is typed"
    test.globs = names
    said: list[str] = []
    failed = doctest.DocTestRunner(optionflags=_FLAGS).run(test, out=said.append, clear_globs=False).failed
    return said if failed else []
