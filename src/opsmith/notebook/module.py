"""Makes a module of a cell: writes its files, executes its definition and builds its operators."""

from __future__ import annotations

import atexit
import builtins
import dis
import functools
import importlib
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from types import CodeType, ModuleType

from opsmith._override import overridden
from opsmith.codegen.prototype import skeleton
from opsmith.errors import DefinitionError
from opsmith.notebook.cell import DEFINITION, Cell
from opsmith.runtime.operator import Operator, load_module, operators_of
from opsmith.spec.definition import Definition, Device

__all__ = ["build_cell", "cells_folder", "execute_cell"]

_COMPILED = (".cpp", ".cc", ".cxx", ".cu")


@functools.cache
def cells_folder() -> Path:
    """Return the folder of this process's cells. It is on `sys.path`: a check's new processes import cells by name."""
    folder, owner = Path(tempfile.mkdtemp(prefix="opsmith-cells-")).resolve(), os.getpid()
    sys.path.append(str(folder))

    def remove() -> None:
        if os.getpid() == owner:  # a fork that ends leaves the files to its parent
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def execute_cell(cell: Cell, elsewhere: Collection[str] = ()) -> ModuleType:
    """Return the module of a cell, which is executed unless this process has it already.

    `elsewhere` are the notebook's own names, which the module does not see. Raises DefinitionError for a cell that
    declares no operator or whose files are not those of its operators, and whatever the cell raises.
    """
    known = sys.modules.get(cell.module)
    if known is not None:
        return known
    folder = cells_folder() / cell.module
    folder.mkdir(parents=True, exist_ok=True)  # a cleaner of temporary files may have taken it all
    for name, text in cell.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    importlib.invalidate_caches()
    spec = importlib.util.spec_from_file_location(
        cell.module, folder / DEFINITION, submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    module = sys.modules[cell.module] = importlib.util.module_from_spec(spec)
    try:
        # Not by the module's loader, whose frames would stand in the traceback.
        exec(_compiled(cell.files[DEFINITION], folder / DEFINITION), vars(module))
        _refuse_misfits(cell, module, elsewhere)
    except BaseException:
        del sys.modules[cell.module]
        raise
    return module


def build_cell(module: ModuleType) -> None:
    """Build and load the operators of a cell's module that are not loaded yet; raises BuildError, ToolchainError, ...

    Nothing of them goes into the user's folders for editors, which would keep a namespace for each edit.
    """
    with overridden("OPSMITH_TYPINGS", ""), overridden("OPSMITH_COMPILE_COMMANDS", ""):
        load_module(module.__name__)


def _compiled(text: str, file: Path) -> CodeType:
    try:
        return compile(text, str(file), "exec")
    except SyntaxError as error:
        line = (error.text or "").rstrip()
        mark = f"\n    {' ' * (error.offset - 1)}^" if error.offset else ""
        raise DefinitionError(f"{file}:{error.lineno}: {error.msg}\n\n    {line}{mark}") from None


def _refuse_misfits(cell: Cell, module: ModuleType, elsewhere: Collection[str]) -> None:
    operators = operators_of(cell.module)
    if not operators:
        raise DefinitionError("the cell declares no operator; decorate a function with @opsmith.op(...)")
    for operator in operators:
        known = {*vars(module), *dir(builtins)}
        if unknown := [name for name in _globals_of(operator) if name not in known and name in elsewhere]:
            raise DefinitionError(
                f"{operator.definition.name} uses {', '.join(unknown)} from another cell. A %%opsmith cell is a module "
                "of its own: import or define in it what it uses"
            )
    needed = _needed_files(operators, cells_folder() / cell.module)
    for name, members in needed.items():
        if name not in cell.files:
            device = members[0][1]
            definitions = list(dict.fromkeys(definition for definition, _ in members))
            raise DefinitionError(
                f"{definitions[0].name} has its kernel in {name}, which the cell does not have. Add to the cell:\n\n"
                f"%%file {name}\n{skeleton(definitions, device)}"
            )
    for name in cell.files:
        if name.endswith(_COMPILED) and name not in needed and not _is_included(name, cell):
            raise DefinitionError(
                f"no operator of the cell has its kernel in {name}: name it, as in "
                f'{"cuda" if name.endswith(".cu") else "cpu"}="{name}", or remove `%%file {name}`'
            )


def _needed_files(operators: Collection[Operator], folder: Path) -> dict[str, list[tuple[Definition, Device]]]:
    """Return the files that operators name beside their definition, with what each is to hold."""
    needed: dict[str, list[tuple[Definition, Device]]] = {}
    for definition in (operator.definition for operator in operators):
        for device, kernel in definition.kernels.items():
            for source in kernel.sources:
                if source.parent == folder:
                    needed.setdefault(source.name, []).append((definition, device))
    return needed


def _is_included(name: str, cell: Cell) -> bool:
    return any(f'#include "{name}"' in text for text in cell.files.values())


def _globals_of(operator: Operator) -> Iterator[str]:
    """Yield the global names that the body of an operator reads."""
    code = getattr(operator.reference, "__code__", None)
    if isinstance(code, CodeType):
        for instruction in dis.get_instructions(code):
            if instruction.opname == "LOAD_GLOBAL":
                yield str(instruction.argval)
