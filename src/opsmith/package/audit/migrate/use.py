"""Defines one use of torch's C++ API by a library, and what replaces it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SymbolUse"]


@dataclass(frozen=True)
class SymbolUse:
    """A symbol of torch's C++ API that a library needs.

    `lines` are places in the sources, as "file:line", as far as debug information or the sources tell. `replacement` is
    what the stable ABI has instead since torch `since`; it is empty where there is nothing.
    """

    symbol: str
    name: str  # demangled
    path: str  # of the library
    lines: tuple[str, ...]
    replacement: str
    since: str
