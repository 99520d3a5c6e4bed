"""Finds the ninja program.

Some installations put a Python script named ninja on PATH, which starts the program; that costs 100 ms a build.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from opsmith.errors import ToolchainError
from opsmith.toolchain.search import executables, is_executable

__all__ = ["find_ninja"]


def find_ninja() -> Path:
    """Return the ninja of the PyPI package, else of PATH; a script only as a last resort.

    Raises ToolchainError if there is none.
    """
    scripts = []
    for path in _candidates():
        if not is_executable(path):
            continue
        if not _is_script(path):
            return path
        scripts.append(path)
    if scripts:
        return scripts[0]
    raise ToolchainError(
        "ninja was not found, neither as a package of this Python nor on PATH. Install it with `pip install ninja` or "
        "`apt-get install ninja-build`."
    )


def _candidates() -> Iterator[Path]:
    """Yield where ninja may be, what is cheap to look at first."""
    if spec := find_spec("ninja"):
        for folder in spec.submodule_search_locations or ():
            yield Path(folder, "data", "bin", "ninja")  # the package until 1.11
        yield Path(sysconfig.get_path("scripts"), "ninja")
        yield Path(sys.executable).parent / "ninja"
        yield from _recorded()
    yield from executables("ninja")


def _recorded() -> Iterator[Path]:
    """Yield where the package's installer put it: `pip --target` and `--user` have places of their own."""
    try:
        package = distribution("ninja")
    except PackageNotFoundError:
        return
    for file in package.files or ():
        if file.name == "ninja":
            yield Path(str(package.locate_file(file))).resolve()


def _is_script(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"#!"
