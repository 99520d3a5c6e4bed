"""Lets a package export names whose modules are imported on first use (PEP 562).

Loading a finished operator in a new process should take milliseconds, and most of what opsmith has is not needed for that.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from opsmith._standalone import PROJECT

__all__ = ["lazy_names"]


def lazy_names(
    package: str, names: Mapping[str, str], modules: Collection[str] = (), *, before: Callable[[], None] | None = None
) -> Callable[[str], Any]:
    """Return a package's `__getattr__`, for names and the modules, relative to the package, that define them.

    `modules` are submodules that are offered themselves. `before` is called each time before a name is imported; what it
    raises reaches the user.
    """

    def __getattr__(name: str) -> Any:  # noqa: N807 -- it becomes the package's own
        if name not in names and name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if before is not None:
            before()
        module = name if name in modules else names[name]
        try:
            found = importlib.import_module(f"{package}.{module}")
        except ModuleNotFoundError as error:
            if not PROJECT or not (error.name or "").startswith(package):
                raise
            raise AttributeError(_missing(name)) from error
        return found if name in modules else getattr(found, name)

    return __getattr__


def _missing(name: str) -> str:
    return (
        f"opsmith.{name} is not in the standalone wheel of {PROJECT}, which only runs its operators: `pip install opsmith`, "
        f"and install {PROJECT} from its sources"
    )
