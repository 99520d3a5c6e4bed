"""Sees exceptions that a candidate raises and catches in one call, in its own process: what then works is something else."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["caught_in"]

# How Python programs look something up or end a loop.
_ORDINARY = (StopIteration, StopAsyncIteration, GeneratorExit, KeyError, IndexError)
_MOST = 20


def caught_in(call: Callable[[], Any], folder: str) -> tuple[Any, list[list[Any]]]:
    """Return what a call returns, and the exceptions in files of a folder that it has caught: type, message, line."""
    found: dict[tuple[str, str], list[Any]] = {}

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        return inside if frame.f_code.co_filename.startswith(folder) else None

    def inside(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "exception" and len(found) < _MOST and not issubclass(argument[0], _ORDINARY):
            name, message = argument[0].__name__, str(argument[1])[:200]
            found[name, message] = [name, message, frame.f_lineno]  # the last line on its way is where it is caught
        return inside

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        result = call()
    finally:
        sys.settrace(before)
    return result, list(found.values())
