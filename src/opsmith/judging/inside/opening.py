"""Opens a candidate in its own process: finds its function or class, and makes a function of the flat arguments of it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from opsmith.judging.candidate import Entry
from opsmith.judging.packings import OpeningError, packed

__all__ = ["OpeningError", "open_candidate"]


def open_candidate(path: Path, entry: Entry, device: str) -> Callable[[Sequence[Any]], Any]:
    """Import a candidate's file and return a function of the task's flat arguments, which are on the device.

    Raises OpeningError for a file without what `entry` names, and whatever the file raises.
    """
    module = _imported(path)
    found = next((getattr(module, name) for name in entry.names if callable(getattr(module, name, None))), None)
    if found is None:
        raise OpeningError(f"{path.name} has no function or class named {' or '.join(entry.names)}")
    return packed(found, entry, device)


def _imported(path: Path) -> ModuleType:
    """Import the file; its folder is on the path for modules beside it, and inspect finds its source."""
    spec = importlib.util.spec_from_file_location("candidate", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["candidate"] = module
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    return module
