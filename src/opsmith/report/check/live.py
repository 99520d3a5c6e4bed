"""Shows a check while it runs: a table that fills on a terminal, a line for each property in a log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from opsmith._streams import write_line
from opsmith.checker.report import Column, Result
from opsmith.checker.run import Watcher
from opsmith.report.check.grid import MARKS, grid_of, kind_of
from opsmith.report.check.text import table_lines
from opsmith.report.live import LiveScreen
from opsmith.report.terminal import for_encoding, markup
from opsmith.subject.case import Case

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["check_screen", "line_watcher"]

_PERIOD_S = 0.1


@contextmanager
def check_screen(console: Console, title: str) -> Iterator[Watcher]:
    """Show the table on a terminal, and below it what is being tried; yield what the check reports to."""
    results: list[Result] = []
    doing = ""
    with LiveScreen(console, period_s=_PERIOD_S) as screen:

        def draw() -> None:
            screen.draw(lambda: table_lines(title, grid_of(results), style=markup), doing)

        def add(result: Result) -> None:
            results.append(result)
            draw()

        def begin(name: str, column: Column, tried: Any) -> None:
            nonlocal doing
            words = tried.label if isinstance(tried, Case) else tried if isinstance(tried, str) else ""
            doing = f"{name}, {column.device} {column.dtype}".rstrip() + (f" on {words}" if words else "")
            draw()

        yield Watcher(add, begin)


def line_watcher(title: str, stream: TextIO | None) -> Watcher:
    """Return a watcher that writes a line for each result when it comes, for logs."""

    def write(result: Result) -> None:
        where = f"{result.column.device} {result.column.dtype}".rstrip()
        mark = MARKS[kind_of(result.outcome)]
        line = f"opsmith  {title}  {mark} {result.name}, {where}  {result.outcome.seconds:.1f}s"
        write_line(stream, for_encoding(line, getattr(stream, "encoding", None)))

    return Watcher(write)
