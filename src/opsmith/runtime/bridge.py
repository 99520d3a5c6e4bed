"""Finds the bridge, the C++ library behind operators' gradients and fast calls, once in a process."""

from __future__ import annotations

from typing import Any

from opsmith import _env
from opsmith._forks import Lock
from opsmith._standalone import PROJECT

__all__ = ["find_bridge"]

_lock = Lock()
_known: dict[str, Any] = {}


def find_bridge() -> Any | None:
    """Return the bridge's module, or None if Python must do its work.

    OPSMITH_BRIDGE says what happens where there is neither a prebuilt one nor one in the store: `auto` builds it in the
    background for the next process, `wait` builds it now, `off` leaves it alone even where it is there. Raises
    ArgumentError for another value; warns where it cannot be built now, or not be loaded. A standalone wheel has none.
    """
    mode = _env.read_mode("OPSMITH_BRIDGE")
    if mode == "off" or PROJECT:
        return None
    with _lock:
        if "module" not in _known:
            from opsmith.runtime.bridge_library import load_bridge

            _known["module"] = load_bridge(mode)
        return _known["module"]
