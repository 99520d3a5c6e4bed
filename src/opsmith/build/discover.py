"""Finds the operators that a module, a file or a folder declares, by importing it."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from opsmith.build.standalone import take_for_copies
from opsmith.errors import DefinitionError, OpsmithError
from opsmith.spec.definition import Group
from opsmith.spec.registry import declared_in

__all__ = ["discover", "import_named", "module_names"]

_OPSMITH = Path(__file__).resolve().parents[1]

# A file that never says `opsmith` declares nothing; importing it could do anything.
_MENTIONS = re.compile(rb"\bopsmith\b")


def discover(path: str) -> tuple[Group, ...]:
    """Return the groups of a module name, a `.py` file or a folder, in the order of their names.

    A package is searched through: every module below it whose text mentions opsmith is imported. Raises DefinitionError
    if the module does not exist, it cannot be imported, or it declares no operator.
    """
    names = module_names(path)
    groups = [group for name in names if (group := _collect(name)) is not None]
    if not groups:
        raise DefinitionError(
            f"{path} declares no operator: none of {', '.join(names)} has a function decorated with @opsmith.op"
        )
    return tuple(groups)


def _collect(name: str) -> Group | None:
    definitions = tuple(operator.definition for operator in declared_in(name))
    return Group(name, definitions[0].file, definitions) if definitions else None


def module_names(path: str) -> list[str]:
    """Import what a path stands for; return the modules that may declare operators, the first being the path's own."""
    take_for_copies()
    location, root = Path(path), None
    if location.suffix == ".py" or _is_there(location, Path.is_dir):
        if not _is_there(location, Path.exists):
            raise DefinitionError(f"no file {location.absolute()}")
        root, name = _import_root(location.resolve())
        if str(root) not in sys.path:
            sys.path.insert(0, str(root))
    else:
        name = path
        _import_from_here()
    module = import_named(name, path)
    if root is not None:
        _refuse_another(module, root, path)
    folders = list(getattr(module, "__path__", ()))
    found = [name]
    for folder in folders:
        for file in _declaring_files(Path(folder)):
            relative = file.relative_to(folder).with_suffix("")
            parts = [part for part in relative.parts if part != "__init__"]
            if parts:
                found.append(".".join([name, *parts]))
    for child in sorted(set(found) - {name}):
        import_named(child, path)
    return sorted(set(found))


def _import_from_here() -> None:
    """Find modules in the current folder too, where a script such as `opsmith` does not look."""
    try:
        here = str(Path.cwd())
    except FileNotFoundError:  # it has been removed
        return
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)


def _refuse_another(module: Any, root: Path, path: str) -> None:
    """Raise DefinitionError if the module is one of that name that was imported from another folder before."""
    file = getattr(module, "__file__", None)
    if file is not None and not Path(file).resolve().is_relative_to(root):
        raise DefinitionError(
            f"{path}: a module {module.__name__} is imported already, from {file}, and a process has one of a name; "
            "start another process"
        )


def _import_root(location: Path) -> tuple[Path, str]:
    """Return the folder to import from and the module's full name: the way up ends if there is no `__init__.py`."""
    parts = [location.stem] if location.suffix == ".py" and location.name != "__init__.py" else []
    folder = location.parent if location.suffix == ".py" else location
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if not parts:
        candidates = [child for child in sorted(folder.iterdir()) if (child / "__init__.py").is_file()]
        declaring = [child.name for child in candidates if any(_declaring_files(child))]
        if len(declaring) != 1:
            found = f"found {', '.join(declaring)}" if declaring else "found none"
            file = next((file for file in _declaring_files(folder) if file.parent == folder), None)
            hint = f"; did you mean {file}?" if file is not None else ""
            raise DefinitionError(
                f"{location} is not a package and must contain exactly one that declares operators; {found}{hint}"
            )
        parts = declaring
    return folder, ".".join(parts)


def _declaring_files(folder: Path) -> Iterator[Path]:
    """Yield the files of modules below a folder that mention opsmith.

    Scripts such as `run-bench.py` and editors' locks (`.#smooth.py`, a link to nothing) have names that no `import` takes.
    `__main__.py` is a program: importing it would run it.
    """
    for file in sorted(folder.rglob("*.py")):
        names = file.relative_to(folder).with_suffix("").parts
        if names[-1] == "__main__" or not all(map(str.isidentifier, names)) or not file.is_file():
            continue
        if _MENTIONS.search(file.read_bytes()):
            yield file


def _is_there(location: Path, test: Callable[[Path], bool]) -> bool:
    try:
        return test(location)
    except (OSError, ValueError):  # a name that no file system takes
        return False


def import_named(name: str, path: str) -> Any:
    """Import a module and return it; raises DefinitionError, which calls it `path`, if that fails for any reason."""
    if not all(part.isidentifier() for part in name.split(".")):
        if _is_there(Path(path), Path.exists):
            raise DefinitionError(f"{path!r:.200} cannot be imported: {name!r:.200} is not a name in Python. Rename it")
        raise DefinitionError(f"{path!r:.200} is not a .py file, a folder or the name of a module")
    try:
        with _without_collections():
            return importlib.import_module(name)
    except DefinitionError as error:
        raise DefinitionError(f"{error}\n  {_place(error)}") from error
    except OpsmithError:
        raise
    except ModuleNotFoundError as error:
        if error.name == name or (error.name and name.startswith(f"{error.name}.")):
            raise DefinitionError(f"no module or folder {path:.200}{_where(name)}") from None
        raise DefinitionError(f"{name} cannot be imported: {error}") from error
    except (Exception, SystemExit) as error:
        raise DefinitionError(f"{name} cannot be imported: {_told(error)}") from error


def _where(name: str) -> str:
    """Return where a module was looked for, or what may have been meant: a function of a module, or a folder in `src`."""
    module, _, attribute = name.rpartition(".")
    if module in sys.modules and hasattr(sys.modules[module], attribute):
        return f"; did you mean {module}::{attribute}?"
    location = Path("src", *name.split("."))
    with suppress(OSError):
        if location.is_dir():
            return f"; did you mean {location}?"
        return f" in {Path.cwd()}, and none is installed"
    return ""


@contextmanager
def _without_collections() -> Iterator[None]:
    """Collect no garbage: the objects of modules stay, and looking through torch's again and again takes 0.1 s."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _told(error: BaseException) -> str:
    """Return an exception of a module as Python's last lines for it, and where it was raised."""
    text = "".join(traceback.format_exception_only(error)).strip()
    if isinstance(error, SyntaxError):  # it has its line
        return text
    return f"{text}\n  {_place(error)}"


def _place(error: BaseException) -> str:
    """Return the last line that an exception passed which is neither a library's, ours included, nor Python's."""
    frames = traceback.extract_tb(error.__traceback__)
    libraries = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "purelib", "platlib"))
    own = [frame for frame in frames if not frame.filename.startswith((*libraries, f"{_OPSMITH}{os.sep}", "<frozen "))]
    last = (own or frames)[-1]
    return f"{last.filename}:{last.lineno}: {last.line}"
