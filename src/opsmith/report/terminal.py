"""Writes styled lines to a terminal or a log: colours by meaning, aligned columns, wrapping, marks that ASCII has."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "WIDTH",
    "Cell",
    "Style",
    "aligned",
    "bar",
    "colour",
    "console_for",
    "echo",
    "for_encoding",
    "line_width",
    "markup",
    "plain",
    "width_of",
    "wrapped",
]

# Takes a text and what it means, a key of _COLOURS; returns the text, coloured.
Style = Callable[[str, str], str]
# A text, and what it means.
Cell = tuple[str, str]

# Columns of a log, which has no window.
WIDTH = 120

_INDENT = "  "
_GAP = "   "
_COLOURS = {
    "": "",
    "dim": "dim",
    "head": "bold",
    "own": "bold",
    "passed": "green",
    "failed": "bold red",
    "not run": "dim",
    "error": "yellow",
    "faster": "green",
    "slower": "red",
    "equal": "",
    "wrong": "bold red",
    "warning": "yellow",
}
_FULL, _EMPTY = "▇", "▁"
# What a stream whose encoding lacks these characters gets instead.
_ASCII = str.maketrans({_FULL: "#", _EMPTY: ".", "–": "-", "✓": "+", "✗": "x", "·": "|", "…": "..."})


def plain(text: str, kind: str) -> str:
    """Return a text as it is: the style of a log."""
    return text


def console_for(*, to_stderr: bool = False) -> Console:
    """Return a console that changes nothing in what it prints; rich obeys NO_COLOR."""
    from rich.console import Console

    return Console(stderr=to_stderr, highlight=False, markup=False, emoji=False)


def line_width(console: Console, least: int = 0) -> int:
    """Return how long lines are there: as wide as the terminal, within limits, and the widest in a log."""
    return min(max(console.width, least), WIDTH) if console.is_terminal else WIDTH


def colour(console: Console) -> Style:
    """Return the style of a console: colours where it has them."""
    from rich.text import Text

    if console.color_system is None:
        return plain

    def style(text: str, kind: str) -> str:
        with console.capture() as capture:
            console.print(Text(text, style=_COLOURS[kind]), end="", soft_wrap=True)
        return capture.get()

    return style


def markup(text: str, kind: str) -> str:
    """Return a text in rich's markup: the style of a live screen."""
    escaped = text.replace("[", r"\[")
    return f"[{_COLOURS[kind]}]{escaped}[/]" if _COLOURS[kind] else escaped


def echo(lines: Iterable[str], console: Console) -> None:
    """Print lines that `colour(console)` has styled; a pipe that closes is click's to handle."""
    import click

    for line in lines:
        click.echo(for_encoding(line, console.encoding), file=console.file, color=console.color_system is not None)


def for_encoding(line: str, encoding: str | None) -> str:
    """Return a line with ASCII in place of the marks and bars that an encoding lacks."""
    try:
        line.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return line.translate(_ASCII)
    return line


def bar(part: float, length: int) -> str:
    """Return a bar of so many characters that is filled to a part of 1."""
    full = max(0, min(length, round(part * length)))
    return _FULL * full + _EMPTY * (length - full)


def wrapped(text: str, width: int) -> list[str]:
    """Return a text as lines of a width, indented from the second on; a word longer than a line stays whole."""
    lines = textwrap.wrap(text, width, subsequent_indent=_INDENT, break_on_hyphens=False, break_long_words=False)
    return lines or [""]


def aligned(rows: Sequence[Sequence[Cell]], style: Style = plain, align: str = "") -> Iterator[str]:
    """Yield the lines of a table, each column as wide as its widest cell; a row may end early.

    `align` has a letter for each column, l or r; without it all are aligned left.
    """
    widths = _widths(rows)
    for row in rows:
        cells = []
        for index, ((text, kind), width) in enumerate(zip(row, widths, strict=False)):
            padding = " " * (width - len(text))
            cells.append(
                padding + style(text, kind) if align[index : index + 1] == "r" else style(text, kind) + padding
            )
        yield (_INDENT + _GAP.join(cells)).rstrip()


def width_of(rows: Sequence[Sequence[Cell]]) -> int:
    """Return how wide `aligned` makes a table."""
    widths = _widths(rows)
    return len(_INDENT) + sum(widths) + len(_GAP) * (len(widths) - 1)


def _widths(rows: Sequence[Sequence[Cell]]) -> list[int]:
    count = max(map(len, rows), default=0)
    return [max(len(row[column][0]) for row in rows if column < len(row)) for column in range(count)]
