"""How the planted operators are loaded: each file of definitions twice, with its defects and without."""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

__all__ = ["module"]


@functools.cache
def module(file: str, planted: bool) -> ModuleType:
    """Return a file of definitions run under the name `<file>_planted` or `<file>_sound`, which chooses its flags."""
    name = f"{file}_{'planted' if planted else 'sound'}"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{file}.py"))
    assert spec is not None and spec.loader is not None
    found = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found
