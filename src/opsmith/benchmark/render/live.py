"""How does a benchmark show itself while it runs? Tables that fill on a terminal, a line for each part in a log."""

from __future__ import annotations

import time
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from opsmith.benchmark.progress import Progress, Watch
from opsmith.benchmark.render.grid import tables_of
from opsmith.benchmark.render.text import Style, for_encoding, table_lines

__all__ = ["TableScreen", "colour", "line_watcher"]

_COLOURS = {
    "faster": "green",
    "slower": "red",
    "equal": "",
    "own": "bold",
    "head": "bold",
    "dim": "dim",
    "wrong": "bold red",
    "warning": "yellow",
    "": "",
}
_BAR_LENGTH = 20


def colour(console: Console) -> Style:
    """Return a style for a console that can show colours; others get the text as it is."""
    if console.color_system is None:
        return lambda text, kind: text

    def style(text: str, kind: str) -> str:
        with console.capture() as capture:
            console.print(Text(text, style=_COLOURS[kind]), end="", soft_wrap=True)
        return capture.get()

    return style


class TableScreen:
    """The tables on a terminal, with how far it is and what is timed. It is gone at the end.

    It draws when it is told something, which is never between samples, and has no thread: one that draws ten times a second
    would take time and cache from what is measured beside it. So its clock stands still while something is timed.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()
        self._live = Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )

    def __enter__(self) -> Watch:
        self._live.start()
        return self._show

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _show(self, progress: Progress) -> None:
        width = self._console.width
        lines = [f"[bold]{progress.operator}[/]"]
        for table in tables_of(progress.timings):
            lines += ["", *table_lines(table, style=_markup, width=width)]
        # What is higher than the window cannot renew itself: its end is shown.
        room = max(3, self._console.height - 4)
        shown = [*lines[:1], *lines[1:][-room:]]
        text = Text.from_markup("\n".join(for_encoding(line, self._console.encoding) for line in shown))
        text.append(f"\n{self._position(progress)}  {progress.doing}", style="dim")
        text.no_wrap, text.overflow = True, "ellipsis"
        self._live.update(text, refresh=True)

    def _position(self, progress: Progress) -> str:
        seconds = f"{time.monotonic() - self._started:4.0f} s"
        if not progress.total:
            return seconds
        full = _BAR_LENGTH * progress.done // progress.total
        bar = for_encoding("▇" * full + "▁" * (_BAR_LENGTH - full), self._console.encoding)
        return f"{seconds}  {bar} {progress.done} of {progress.total}"


def line_watcher(stream: TextIO) -> Watch:
    """Return a watcher that writes a line for each thing that takes long when it begins, for logs."""

    def write(progress: Progress) -> None:
        place = f"[{progress.done + 1}/{progress.total}] " if progress.total else ""
        line = f"opsmith  {progress.operator}  {place}{progress.doing}"
        stream.write(for_encoding(line, stream.encoding or "ascii") + "\n")
        stream.flush()

    return write


def _markup(text: str, kind: str) -> str:
    escaped = text.replace("[", r"\[")
    return f"[{_COLOURS[kind]}]{escaped}[/]" if _COLOURS[kind] else escaped
