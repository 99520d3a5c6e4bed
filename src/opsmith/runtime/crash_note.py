"""Has a process that a signal ends in an operator name that operator, on stderr (include/opsmith/running.h).

Only a process that loads operators in Python gets the handlers. They call those that they find: Python's faulthandler, a
data loader's, those of a program that Python is embedded in. Handlers that come later are called in place of ours.
"""

from __future__ import annotations

import ctypes

from opsmith import _env
from opsmith._forks import Lock

__all__ = ["name_crashes"]

_NO_KEY = -1
_lock = Lock()
_keys: list[int] = []  # the one that the first library has made


def name_crashes(library: ctypes.CDLL) -> None:
    """Have the operators of a loaded library named in the note; nothing happens with OPSMITH_CRASH_NOTE=off."""
    if _env.read("OPSMITH_CRASH_NOTE") == "off":
        return
    try:
        name = library.opsmith_name_crashes
    except AttributeError:  # not a generated binding
        return
    with _lock:
        if _keys:
            name(_keys[0])
        elif (key := name(_NO_KEY)) != _NO_KEY:
            _keys.append(key)
