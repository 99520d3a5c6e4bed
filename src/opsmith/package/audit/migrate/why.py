"""Explains each symbol of torch's C++ API that a library needs: its name, its place in the sources, its replacement."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from opsmith import _subprocess
from opsmith.package.audit.facts import Library
from opsmith.package.audit.migrate.lines import lines_from_debug_info, lines_in_sources
from opsmith.package.audit.migrate.replacements import Replacement, find_replacement
from opsmith.package.audit.migrate.use import SymbolUse

__all__ = ["demangle_all", "explain_uses"]

_FILT_LIMIT_S = 30.0
# What fits into one command line.
_AT_ONCE = 500


def explain_uses(library: Library, *, file: Path | None = None, sources: Path | None = None) -> tuple[SymbolUse, ...]:
    """Return every use of torch's C++ API by a library.

    `file` is the library on disk, whose debug information is read, and `sources` a folder that is searched where that
    tells nothing.
    """
    symbols = library.needs.torch_cpp
    names = demangle_all(symbols)
    replacements = {symbol: find_replacement(names[symbol]) for symbol in symbols}
    lines: dict[str, tuple[str, ...]] = {}
    if file is not None and library.elf.has_debug_info:
        found = lines_from_debug_info(file, symbols)
        lines = found if isinstance(found, dict) else {}
    if sources is not None:
        patterns = {
            symbol: row.source if row is not None and row.source else _own_pattern(names[symbol])
            for symbol, row in replacements.items()
            if symbol not in lines
        }
        lines |= lines_in_sources(sources, patterns)
    return tuple(_uses(library, names, replacements, lines))


def demangle_all(symbols: Iterable[str]) -> dict[str, str]:
    """Return the C++ names of symbols, by c++filt; a symbol itself where that is not installed."""
    wanted = sorted(set(symbols))
    names = {symbol: symbol for symbol in wanted}
    for start in range(0, len(wanted), _AT_ONCE):
        part = wanted[start : start + _AT_ONCE]
        answer = _subprocess.ask(["c++filt", *part], timeout_s=_FILT_LIMIT_S)
        if isinstance(answer, str) or answer.status != 0:
            break
        lines = answer.output.splitlines()
        if len(lines) == len(part):
            names |= dict(zip(part, lines, strict=True))
    return names


def _uses(
    library: Library,
    names: dict[str, str],
    replacements: dict[str, Replacement | None],
    lines: dict[str, tuple[str, ...]],
) -> Iterator[SymbolUse]:
    for symbol in library.needs.torch_cpp:
        row = replacements[symbol]
        stable, since = (row.stable, row.since) if row is not None and row.stable else ("", "")
        yield SymbolUse(symbol, names[symbol], library.path, lines.get(symbol, ()), stable, since)


def _own_pattern(name: str) -> str:
    """Return what finds a function by the last part of its name; nothing for names that are too common."""
    match = re.search(r"(~?\w+)(?:<[^()]*>)?\(", name)
    return rf"\b{re.escape(match[1])}\s*[<(]" if match and len(match[1]) > 4 else ""
