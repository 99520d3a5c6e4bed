"""How a library of existing C++ and CUDA sources comes into a process: as a module, or for what it registers."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from opsmith.errors import LoadError
from opsmith.runtime.registrations import find_clash, find_registrations
from opsmith.spec.extension import Source

__all__ = ["bring_in", "import_library"]

# One load at a time: two threads must not define operators from the same sources at once.
_lock = threading.RLock()
_modules: dict[Path, ModuleType] = {}


def import_library(name: str, library: Path) -> ModuleType:
    """Import an extension module from its file; the same file always gives the same module. Raises LoadError."""
    with _lock:
        if (module := _modules.get(library)) is not None:
            return module
        # Not into sys.modules: `name` is the caller's choice, and may be that of a module which others import.
        loader = importlib.machinery.ExtensionFileLoader(name, str(library))
        spec = importlib.util.spec_from_file_location(name, library, loader=loader)
        assert spec is not None
        try:
            module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
        except ImportError as error:
            raise LoadError(_explain_load(name, library, str(error))) from error
        _modules[library] = module
        return module


def bring_in(name: str, library: Path, sources: tuple[Source, ...], *, is_python_module: bool) -> Any:
    """Load a finished library into this process and return its module, or its path where it is none.

    Raises LoadError where it needs a symbol that nothing has, or would define operators that PyTorch has already.
    """
    with _lock:
        if library not in _modules and str(library) not in torch.ops.loaded_libraries:
            _refuse_clash(name, sources)
        if is_python_module:
            return import_library(name, library)
        try:
            torch.ops.load_library(str(library))
        except OSError as error:
            # torch's own exception names the file only; the loader's words are in its cause.
            raise LoadError(_explain_load(name, library, str(error.__cause__ or error))) from error
        return str(library)


def _refuse_clash(name: str, sources: tuple[Source, ...]) -> None:
    """Raise LoadError where the library would define what PyTorch has: it would abort the process."""
    texts = [source.text or "" for source in sources]
    texts += [user.read_text(encoding="utf-8", errors="replace") for source in sources for user in source.users]
    if (clash := find_clash(find_registrations(texts, name))) is not None:
        raise LoadError(
            f"{name} would define {clash} in torch.ops, which another library, perhaps an earlier version of these "
            "sources, has defined in this process. C++ operators cannot be replaced: start a new process, or use "
            "another namespace"
        )


def _explain_load(name: str, library: Path, message: str) -> str:
    from opsmith.runtime.load_failure import explain_load_failure

    return explain_load_failure(name, library, message)
