"""Lets this opsmith look at a standalone wheel's operators: its copy of the runtime is imported as opsmith itself.

Such a wheel declares its operators with its own copy, whose registry is another one. Where they are to be found by name, to
be checked or timed, modules of the copy are those of this opsmith; the wheel's libraries stay what they are.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

__all__ = ["take_for_copies"]

# As package/standalone writes it.
_COPY = "_opsmith"
_MARK = "_standalone.py"


def take_for_copies() -> None:
    """Have imports of copies lead to this opsmith from now on; a copy that is imported already stays."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds the modules of copies in opsmith."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        parts = fullname.split(".")
        if _COPY not in parts[1:] or path is None:
            return None
        below = parts[parts.index(_COPY) + 1 :]
        if not below and not any(Path(folder, _COPY, _MARK).is_file() for folder in path):
            return None
        return ModuleSpec(fullname, _Borrowed(".".join(["opsmith", *below])))


class _Borrowed(Loader):
    """Gives a module that is there already another name."""

    def __init__(self, name: str) -> None:
        self._module = importlib.import_module(name)
        self._spec = self._module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # importlib has given it the other name's
