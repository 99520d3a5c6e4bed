"""Shows how a library leaves torch's C++ API: the symbols that have one replacement in common, with their places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opsmith._printable import printable
from opsmith.package.audit.migrate.use import SymbolUse
from opsmith.report.terminal import Style, plain
from opsmith.report.units import count_of

__all__ = ["migration_lines"]

_MOST_NAMES = 2
_MOST_PLACES = 3
_NAME_LENGTH = 96


def migration_lines(uses: Sequence[SymbolUse], *, style: Style = plain, details: bool = False) -> Iterator[str]:
    """Yield the lines of a migration report. `details` shows every symbol and place."""
    groups: dict[tuple[str, str], list[SymbolUse]] = {}
    for use in uses:
        groups.setdefault((use.replacement, use.since), []).append(use)
    without = groups.pop(("", ""), [])
    yield style(
        f"{count_of(len(uses), 'symbol')} of torch's C++ API, {len(uses) - len(without)} of which the stable ABI replaces",
        "head",
    )
    for (replacement, since), group in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield f"  {style(printable(replacement), 'passed')}  {style(f'since torch {since}', 'dim')}"
        yield from _uses(group, style, details)
    if without:
        yield f"  {style('nothing replaces', 'failed')}"
        yield from _uses(without, style, details)


def _uses(group: Sequence[SymbolUse], style: Style, details: bool) -> Iterator[str]:
    # Two libraries of a wheel often need the same; a constructor and a destructor have several symbols of one name.
    names = list(dict.fromkeys(use.name for use in group))
    shown = names if details else names[:_MOST_NAMES]
    yield from (f"      {_short(name)}" for name in shown)
    if len(shown) < len(names):
        yield style(f"      and {len(names) - len(shown)} more", "dim")
    places = list(dict.fromkeys(place for use in group for place in use.lines))
    if places:
        more = len(places) - _MOST_PLACES
        text = ", ".join(places if details else places[:_MOST_PLACES])
        yield style(f"        {printable(text)}{f' and {more} more' if more > 0 and not details else ''}", "dim")


def _short(name: str) -> str:
    name = printable(name).replace(
        "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string"
    )
    return name if len(name) <= _NAME_LENGTH else f"{name[: _NAME_LENGTH - 1]}…"
