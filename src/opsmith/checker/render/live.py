"""How does a check show itself while it runs? A table that fills on a terminal, a line for each property in a log."""

from __future__ import annotations

import time
from typing import Any, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from opsmith.checker.render.grid import grid_of
from opsmith.checker.render.text import Style, kind_of, marks_for, table_lines
from opsmith.checker.report import Column, Report, Result
from opsmith.checker.run import Watcher
from opsmith.subject.case import Case

__all__ = ["TableScreen", "colour", "line_watcher"]

_COLOURS = {"passed": "green", "failed": "bold red", "not run": "dim", "dim": "dim", "head": "bold", "error": "yellow"}
_PERIOD_S = 0.1


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
    """The table on a terminal: it fills while the check runs, and below it stands what is tried. It is gone at the end.

    It has no thread of its own, because the check forks: what such a thread holds would be held for ever in the child.
    """

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._title = title
        self._results: list[Result] = []
        self._doing = ""
        self._shown_at = 0.0
        self._started = time.monotonic()
        self._live = Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )

    def __enter__(self) -> Watcher:
        self._live.start()
        return Watcher(self._result, self._do)

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _result(self, result: Result) -> None:
        self._results.append(result)
        self._show()

    def _do(self, name: str, column: Column, doing: Any) -> None:
        on = f" on {words}" if (words := _words(doing)) else ""
        self._doing = f"{name}, {column.device} {column.dtype}".rstrip() + on
        self._show()

    def _show(self) -> None:
        now = time.monotonic()
        if now - self._shown_at < _PERIOD_S:
            return
        self._shown_at = now
        report = Report(self._title, tuple(self._results), 0, now - self._started)
        lines = list(table_lines(self._title, grid_of(report), marks_for(self._console.encoding), style=_markup))
        # A table that is higher than the window cannot renew itself: its end is shown.
        room = max(3, self._console.height - 3)
        text = Text.from_markup("\n".join([*lines[:1], *lines[1:][-room:]]))
        text.append(f"\n{now - self._started:4.0f} s  {self._doing}", style="dim")
        text.no_wrap, text.overflow = True, "ellipsis"
        self._live.update(text, refresh=True)


def line_watcher(title: str, stream: TextIO) -> Watcher:
    """Return a watcher that writes a line for each result when it comes, for logs."""
    marks = marks_for(stream.encoding or "ascii")

    def write(result: Result) -> None:
        where = f"{result.column.device} {result.column.dtype}".rstrip()
        outcome = result.outcome
        mark = marks[kind_of(outcome)]
        stream.write(f"opsmith  {title}  {mark} {result.name}, {where}  {outcome.seconds:.1f}s\n")
        stream.flush()

    return Watcher(write)


def _markup(text: str, kind: str) -> str:
    return f"[{_COLOURS[kind]}]{text}[/]"


def _words(doing: Any) -> str:
    if isinstance(doing, Case):
        return doing.label
    return doing if isinstance(doing, str) else ""
