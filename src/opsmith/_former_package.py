"""Keeps the import path of a package that is a function now, with a DeprecationWarning.

`opsmith.bench` was a package that could be called. It is a plain function now, and the package is `opsmith.benchmark`;
so with check and checker, profile and profiler.
`from opsmith.bench import BenchReport` still works: the module of that name puts the function in its own place, which
Python allows (https://docs.python.org/3/reference/import.html#loading), with the package's public names as attributes.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any, cast

__all__ = ["replace_by_function"]


def replace_by_function(module: str, function: Callable[..., Any], package: str) -> None:
    """Let `function`, with the public names of `package` as attributes, stand in `sys.modules` as `module`."""
    message = f"the module {module} is deprecated and {module}() is a function now; import these names from {package}"
    warnings.warn(message, DeprecationWarning, stacklevel=3)
    found = importlib.import_module(package)
    vars(function).update({name: getattr(found, name) for name in found.__all__})
    sys.modules[module] = cast(ModuleType, function)
