"""Loads a library of existing C++ and CUDA sources: as a Python module, or for what it registers."""

from __future__ import annotations

import atexit
import importlib.machinery
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from opsmith._forks import Lock, hold_off_forks
from opsmith.errors import LoadError
from opsmith.runtime.registrations import Registered, Registrations, find_clash, find_registrations

__all__ = ["bring_in", "import_library"]

# One load at a time: two threads must not define operators from the same sources at once.
_lock = Lock()
_modules: dict[Path, ModuleType] = {}
_registered: dict[Path, Registered] = {}
_imports: dict[str, int] = {}
_importable: dict[str, ModuleType] = {}  # what stands in sys.modules for each name


def import_library(name: str, library: Path, *, file: Path | None = None) -> ModuleType:
    """Import an extension module from its file; the same library always gives the same module. Raises LoadError.

    `file` is a copy to load in its place.
    """
    with _lock, hold_off_forks():
        if (module := _modules.get(library)) is not None:
            return module
        unique = _unique_name(name)
        loader = importlib.machinery.ExtensionFileLoader(unique, str(file or library))
        spec = importlib.util.spec_from_file_location(unique, file or library, loader=loader)
        assert spec is not None
        try:
            module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
        except ImportError as error:
            raise LoadError(_explain_load(name, library, str(error))) from error
        module.__name__ = name
        _modules[library] = module
        return module


def _make_importable(name: str, module: ModuleType) -> None:
    """Let `import name` find a loaded module, unless the name is that of a module which is not ours.

    Programs load a library in one place and import it in another, as they can after PyTorch's load.
    """
    if name not in sys.modules or sys.modules[name] in (module, _importable.get(name)):
        sys.modules[name] = _importable[name] = module


def _unique_name(name: str) -> str:
    """Return a name to import a module by, ending like its own: pybind11 always gives one name the same module."""
    count = _imports[name] = _imports.get(name, -1) + 1
    if count == 0 and name not in sys.modules:
        return name
    return f"{name}_v{count}.{name.rpartition('.')[2]}"


def bring_in(name: str, library: Path, texts: Iterable[str], *, is_python_module: bool) -> Any:
    """Load a finished library into this process and return its module, or its path if it is not one.

    `texts` are those of its sources, which say what it registers with PyTorch. What an earlier library of that name
    registered is taken back first. Raises LoadError if that is impossible, where a symbol is missing, or where
    another library has defined the operators.
    """
    with _lock, hold_off_forks():
        known = _registered.get(library)
        if known is None or known.released:
            registrations = find_registrations(texts, name)
            file = library if known is None else _copy_of(library)
            if (library not in _modules and str(library) not in torch.ops.loaded_libraries) or known is not None:
                _make_room(name, registrations, file)
        else:
            registrations, file = known.registrations, known.file
        if is_python_module:
            if known is not None and known.released:
                _modules.pop(library, None)
            loaded: Any = import_library(name, library, file=file)
            _make_importable(name, loaded)
        else:
            _load_operators(name, file)
            loaded = str(library)
        _registered[library] = Registered(name, file, registrations)
        return loaded


def _load_operators(name: str, file: Path) -> None:
    try:
        torch.ops.load_library(str(file))
    except OSError as error:
        # torch's own exception names the file only; the loader's words are in its cause.
        raise LoadError(_explain_load(name, file, str(error.__cause__ or error))) from error


def _copy_of(library: Path) -> Path:
    """Return a copy of a library that has given its registrations back: the same file would not register again."""
    folder = Path(tempfile.mkdtemp(prefix="opsmith-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(shutil.copyfile(library, folder / library.name))


def _make_room(name: str, registrations: Registrations, file: Path) -> None:
    """Have earlier libraries of that name give back what the new one defines; raises LoadError for another owner's."""
    if find_clash(registrations) is None:
        return
    from opsmith.runtime.reload import replace_registrations  # nothing that a first load needs

    for old in [known for known in _registered.values() if known.name == name and not known.released]:
        replace_registrations(old, file)
        if find_clash(registrations) is None:
            return
    raise LoadError(
        f"{name} would define {find_clash(registrations)} in torch.ops, which another library has defined in this "
        "process. Another library's C++ operators cannot be replaced: start a new process, or use another namespace"
    )


def _explain_load(name: str, library: Path, message: str) -> str:
    from opsmith.runtime.load_failure import explain_load_failure

    return explain_load_failure(name, library, message)
