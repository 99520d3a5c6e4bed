"""Imports a kernel's file in Python, finds the files that this ran, and reports what goes wrong at its lines."""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
import traceback
import types
from collections.abc import Collection
from pathlib import Path

__all__ = ["error_at_line", "import_file", "imported_files"]


def import_file(file: Path, module: str) -> types.ModuleType:
    """Import a kernel's file as a module of its package, without running the package's own files: they may need a GPU."""
    *packages, _ = module.split(".")
    folder = file.parent
    for count in range(len(packages), 0, -1):
        package = types.ModuleType(".".join(packages[:count]))
        package.__path__ = [str(folder)]
        sys.modules[package.__name__] = package
        folder = folder.parent
    sys.path.append(str(folder))
    spec = importlib.util.spec_from_file_location(module, file)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def imported_files(before: Collection[str]) -> set[str]:
    """Return the files of the modules that were not imported before, without those of Python and of installed packages."""
    installed = tuple(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platlib", "purelib"))
    files = [getattr(module, "__file__", None) for name, module in list(sys.modules.items()) if name not in before]
    return {file for file in files if file and not file.startswith(installed) and not _is_package(Path(file))}


def _is_package(file: Path) -> bool:
    """Tell whether a file belongs to an installed package, of another environment that this one sees."""
    return not {"site-packages", "dist-packages"}.isdisjoint(file.parts)


def error_at_line(error: BaseException, files: Collection[str]) -> str:
    """Return the message of an error at the innermost line of some files that led to it, and how it came there.

    The kernel's own file is the first.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: error: {error.msg}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    what = f"{type(error).__name__}: {str(error).strip() or 'no message'}".partition("\n")[0]
    if not frames:
        return f"{next(iter(files))}:1: error: {what}"
    lines = [f"{frames[-1].filename}:{frames[-1].lineno}: error: {what}"]
    lines += [f"{frame.filename}:{frame.lineno}: note: called from here" for frame in reversed(frames[:-1])]
    return "\n".join(dict.fromkeys(lines))
