"""Turns a result into text without importing what draws it.

A result is data: `str(report)` asks `text_of`, which imports the drawing function on its first use.
`opsmith/__init__.py`, which every process with a result has imported, registers the functions.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

__all__ = ["draw_with", "text_of"]

_drawers: dict[str, str] = {}


def draw_with(drawers: Mapping[str, str]) -> None:
    """Name the functions that draw results: `module:function` by `module:class`, neither of which is imported here."""
    _drawers.update(drawers)


def text_of(result: object) -> str:
    """Return a result as the text that its function draws; a subclass is drawn as its base is."""
    for kind in type(result).__mro__:
        if (drawer := _drawers.get(f"{kind.__module__}:{kind.__qualname__}")) is not None:
            module, _, function = drawer.partition(":")
            text: str = getattr(importlib.import_module(module), function)(result)
            return text
    raise TypeError(f"nothing draws a {type(result).__qualname__}")
