"""Runs a guide as its reader would: writes the files that it shows, runs its code, and compares what its sessions print.

    ```python title="forms.py"      a file, or its next part; all files are written first
    ```cpp title="forms.cpp"        likewise
    ```python                       code that runs, in the order of the page
    ```pycon                        a session whose output is compared, tracebacks by their last line
    ```console                      commands, of which `opsmith stub` runs and the others do not

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

__all__ = ["Block", "blocks_of", "check_page", "check_prototypes", "has_files", "run_page", "write_files"]

_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
# An empty line within what is printed; doctest takes it for the end.
_BLANK = re.compile(r"\n\n(?!>>> |$)")
_OF_KERNELS = ("value", "sizes", "empty", "strides", "special values", "arguments", "gradient", "outputs written")
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


def has_files(page: Path) -> bool:
    """Whether a page shows whole files, and so is one that runs here."""
    return any(block.file is not None for block in blocks_of(page))


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
        elif block.text.startswith("$ opsmith stub "):
            wrong += _stub_differences(block)
    assert not wrong, "".join(wrong)
    for path in files:
        if path.suffix == ".py":
            source = path.read_text(encoding="utf-8")
            if _is_kernel_in_python(source):
                compile(source, path, "exec")
            else:
                check_prototypes(path)


def _is_kernel_in_python(source: str) -> bool:
    """Tell whether a file has kernels of Triton or CuTe DSL, which not all of the tests' environments have."""
    return "import triton" in source or "import cutlass" in source


def check_page(page: Path, folder: Path) -> None:
    """Run `opsmith.check`, with the properties that are about kernels, on every operator of a page that builds."""
    import opsmith
    from opsmith.errors import BuildError
    from opsmith.runtime.operator import operators_of

    sys.path.insert(0, str(folder))
    checked = 0
    for path in write_files(blocks_of(page), folder):
        if path.suffix != ".py" or _is_kernel_in_python(path.read_text(encoding="utf-8")):
            continue
        importlib.import_module(path.stem)
        for operator in operators_of(path.stem):
            if operator.definition.forward is None and operator.definition.kernels:
                try:
                    operator.load()
                except BuildError:  # which the page shows
                    continue
                opsmith.check(operator, devices="cpu", properties=_OF_KERNELS, seconds=8).raise_if_failed()
                checked += 1
    assert checked


def check_prototypes(module: Path) -> None:
    """Assert that each kernel of a module begins as `opsmith stub` prints it; a page may show one that does not build."""
    from opsmith.codegen.prototype import prototype
    from opsmith.runtime.operator import operators_of
    from opsmith.spec.definition import AHEAD

    importlib.import_module(module.stem)
    for operator in filter(lambda operator: operator.is_loaded, operators_of(module.stem)):
        for device, kernel in operator.definition.kernels.items():
            if kernel.style in AHEAD:
                continue  # it takes what it needs of the prototype
            source = " ".join(kernel.sources[0].read_text(encoding="utf-8").split())
            assert f"{prototype(operator.definition, device)} {{" in source, prototype(operator.definition, device)


def _run(block: Block, page: Path, names: dict[str, object]) -> None:
    # Under a name by which inspect finds the source: TorchScript and the check read it.
    name = f"<{page.name}:{block.line}>"
    linecache.cache[name] = (len(block.text), None, block.text.splitlines(keepends=True), name)
    exec(compile(block.text, name, "exec"), names)


def _differences(block: Block, page: Path, names: dict[str, object]) -> list[str]:
    """Return what a session prints otherwise than the page shows."""
    text = _BLANK.sub("\n<BLANKLINE>\n", block.text)
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), block.line - 1)
    assert test.examples, f"{page}:{block.line}: a session without a line that is typed"
    test.globs = names
    said: list[str] = []
    failed = doctest.DocTestRunner(optionflags=_FLAGS).run(test, out=said.append, clear_globs=False).failed
    return said if failed else []


def _stub_differences(block: Block) -> list[str]:
    from click.testing import CliRunner

    from opsmith.cli.stub import command

    typed, _, shown = block.text.partition("\n")
    printed = CliRunner().invoke(command, typed.split()[3:]).output
    return [] if doctest.OutputChecker().check_output(shown, printed, _FLAGS) else [f"{typed}\n{printed}"]
