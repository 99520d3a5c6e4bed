"""How the demo shows itself: live bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

from opsmith.demo.table import BAD, GOOD, Table

__all__ = ["Screen", "Step"]

# Lines of a log may be longer than the 80 columns that rich takes where there is no terminal.
_LOG_WIDTH = 120

_INDENT = 3
_STYLES = {GOOD: "green", BAD: "bold red"}


class Step:
    """Something that takes a while: `advance` says how far it is."""

    def __init__(self, screen: Screen, progress: Progress, task: TaskID) -> None:
        self._screen, self._progress, self._task = screen, progress, task

    def advance(self, done: int, total: int, detail: str, *, is_milestone: bool = False) -> None:
        """Renew the live line; where there is none, a milestone is printed and everything else is not."""
        self._progress.update(self._task, completed=done, total=total, detail=detail)
        if is_milestone and not self._screen.is_live:
            self._screen.line(detail)


class Screen:
    """Where the demo writes: stdout, or stderr where stdout is for JSON. rich obeys NO_COLOR."""

    def __init__(self, console: Console | None = None, *, to_stderr: bool = False) -> None:
        self._console = console or Console(stderr=to_stderr, highlight=False)
        if not self._console.is_terminal and "COLUMNS" not in os.environ:
            self._console.width = _LOG_WIDTH
        self._sections = 0

    @property
    def is_live(self) -> bool:
        """Whether somebody watches a terminal."""
        return self._console.is_terminal and not self._console.is_dumb_terminal

    def title(self, text: str, rest: str) -> None:
        """Print the first line."""
        self._console.print(Text.assemble((text, "bold"), "  ", rest))

    def section(self, text: str) -> None:
        """Print a numbered heading."""
        self._sections += 1
        self._console.print()
        self._console.print(Text.assemble((f"{self._sections}", "bold cyan"), "  ", (text, "bold")))

    def line(self, text: str, *, style: str = "") -> None:
        """Print a line; a mark at its beginning is coloured."""
        content = Text(text, style=style or _STYLES.get(text[:1], ""))
        if text[:1] in _STYLES:
            content = Text.assemble((text[:1], _STYLES[text[:1]]), text[1:])
        self._console.print(Padding(content, (0, 0, 0, _INDENT), expand=False))

    def table(self, table: Table) -> None:
        """Print a table, without its title: the section's heading says it."""
        grid = RichTable(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
        for name, side in zip(table.columns, table.align, strict=True):
            grid.add_column(name, justify="right" if side == "r" else "left", overflow="fold")
        for row in table.rows:
            grid.add_row(*(Text(cell, style=_style(cell)) for cell in row))
        self._console.print(Padding(grid, (0, 0, 0, _INDENT), expand=False))
        if table.note:
            self.line(table.note, style="dim")

    @contextmanager
    def step(self, title: str, total: int | None = None) -> Iterator[Step]:
        """Show a bar while something runs; it goes away at the end, so what came of it has to be printed."""
        columns = (
            TextColumn(" " * (_INDENT - 1)),
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TimeElapsedColumn(),
            TextColumn("{task.fields[detail]}", style="dim"),
        )
        progress = Progress(*columns, console=self._console, transient=True, disable=not self.is_live)
        with progress:
            yield Step(self, progress, progress.add_task(title, total=total, detail=""))


def _style(cell: str) -> str:
    return next((style for mark, style in _STYLES.items() if mark in cell), "")
