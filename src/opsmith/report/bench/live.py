"""Shows a benchmark while it runs: tables that fill on a terminal, a line for each part in a log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from opsmith._streams import write_line
from opsmith.benchmark.progress import Progress, Watch
from opsmith.report.bench.grid import tables_of
from opsmith.report.bench.text import table_lines
from opsmith.report.live import LiveScreen
from opsmith.report.terminal import bar, for_encoding, markup

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["bench_screen", "line_watcher"]

_BAR_LENGTH = 20


@contextmanager
def bench_screen(console: Console) -> Iterator[Watch]:
    """Show the tables on a terminal, with how far it is and what is timed; yield what the benchmark reports to.

    It reports between samples, never while it takes them, so the clock of the screen stands still meanwhile.
    """
    with LiveScreen(console) as screen:

        def show(progress: Progress) -> None:
            screen.draw(lambda: _lines(progress, console.width), f"{_position(progress)}{progress.doing}")

        yield show


def line_watcher(stream: TextIO | None) -> Watch:
    """Return a watcher that writes a line for each thing that takes long when it begins, for logs."""

    def write(progress: Progress) -> None:
        number = f"[{progress.done + 1}/{progress.total}] " if progress.total else ""
        line = f"opsmith  {progress.operator}  {number}{progress.doing}"
        write_line(stream, for_encoding(line, getattr(stream, "encoding", None)))

    return write


def _lines(progress: Progress, width: int) -> Iterator[str]:
    yield markup(progress.operator, "head")
    for table in tables_of(progress.timings):
        yield ""
        yield from table_lines(table, style=markup, width=width)


def _position(progress: Progress) -> str:
    if not progress.total:
        return ""
    return f"{bar(progress.done / progress.total, _BAR_LENGTH)} {progress.done} of {progress.total}  "
