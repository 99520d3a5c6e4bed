"""Notices kernels that were edited after this process had loaded them, and says so once.

PyTorch keeps an operator until the process ends, so calls go on running what was loaded. A call takes less time than a
look at a file. So files are looked at where something else takes its time anyway, and where the answer matters: when a
call has failed, when an operator is declared again, when others are loaded, when it is checked, timed or profiled, and
before each cell of a notebook.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

from opsmith.spec.definition import Definition
from opsmith.store import digest_file

__all__ = ["warn_of_edits", "watch"]


# What the names of opsmith's modules begin with: `opsmith.`, or the name of the copy in a standalone wheel.
_OWN = __name__.removesuffix("runtime.edits")


class _Watched:
    """A source of a loaded library, with its operators and the digests of everything that the library was made from."""

    def __init__(self, file: Path, operators: list[str], digests: frozenset[str]) -> None:
        self.file, self.operators, self._digests = file, operators, digests
        # Size and time of the file when it was last found to be unedited.
        self._unedited: tuple[int, int] | None = None

    def is_edited(self) -> bool:
        """Tell whether the file says something else now. One that was removed is not edited."""
        try:
            status = self.file.stat()
            stamp = status.st_size, status.st_mtime_ns
            if stamp != self._unedited:
                if digest_file(self.file) not in self._digests:
                    return True
                self._unedited = stamp
        except OSError:
            pass
        return False


# By module and file.
_watched: dict[tuple[str, Path], _Watched] = {}
_shells: list[object] = []


def watch(definitions: Iterable[Definition], inputs: Mapping[str, str]) -> None:
    """Remember the sources of a module's operators that were just loaded from a library made from `inputs`."""
    digests = frozenset(inputs.values())
    operators: dict[tuple[str, Path], list[str]] = {}
    for definition in definitions:
        for source in {source for kernel in definition.kernels.values() for source in kernel.sources}:
            operators.setdefault((definition.module, source), []).append(definition.name)
    for (module, file), names in operators.items():
        # A library for the CPU alone is not made from the GPU's kernels.
        if any(name.endswith((f"/{file.name}", f" {file.name}")) for name in inputs):
            _watched[module, file] = _Watched(file, names, digests)
    _watch_cells()


def warn_of_edits(module: str | None = None) -> None:
    """Warn of each source of a module's loaded operators, or of all, that was edited since; of each one once."""
    for key, watched in list(_watched.items()):
        if module in (None, key[0]) and watched.is_edited() and _watched.pop(key, None) is not None:
            names = ", ".join(watched.operators)
            warnings.warn(
                f"{watched.file} was edited after this process had loaded {names} from it. Calls in this process run the "
                "earlier version, because PyTorch keeps an operator until it ends. To run the edited one, start a new "
                "process; in a notebook, restart the kernel",
                RuntimeWarning,
                stacklevel=_level_of_user(),
            )


def _level_of_user() -> int:
    """Return the `stacklevel` at which the function that calls this one names the line of the user's."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_OWN):
        frame, level = frame.f_back, level + 1
    return level


def _watch_cells() -> None:
    """Have IPython look before each cell, where this process is one of its shells."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None and shell not in _shells:
        _shells.append(shell)
        shell.events.register("pre_run_cell", lambda info: warn_of_edits())
