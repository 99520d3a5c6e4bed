"""Lets a package export names whose modules are imported on first use (PEP 562).

Loading a finished operator in a new process should take milliseconds, and most of what opsmith has is not needed for that.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

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
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        return getattr(importlib.import_module(f"{package}.{names[name]}"), name)

    return __getattr__
