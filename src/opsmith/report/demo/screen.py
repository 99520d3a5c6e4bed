"""Shows the demo while it runs: headings, results as they come, a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opsmith.benchmark.result import BenchReport
from opsmith.checker.report import Report
from opsmith.demo.agreement import Agreement
from opsmith.demo.builds import Build
from opsmith.demo.results import Results
from opsmith.demo.slopes import Slope
from opsmith.demo.training import TARGET, Run
from opsmith.report.bench.text import report_lines as bench_lines
from opsmith.report.check.text import report_lines as check_lines
from opsmith.report.demo.tables import agreement_table, build_table, slope_table, summary_of, training_table
from opsmith.report.live import LiveScreen
from opsmith.report.table import BAD, GOOD, Table, table_lines
from opsmith.report.terminal import WIDTH, Style, bar, colour, console_for, echo, markup

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["DemoScreen", "Step"]

_INDENT = 3
_BAR_LENGTH = 20
_KINDS = {GOOD: "passed", BAD: "failed"}
# How lists of results become tables.
_TABLES: dict[type, Callable[[Any], Table]] = {Build: build_table, Slope: slope_table, Run: training_table}


class Step:
    """Something that takes a while: `advance` says how far it is."""

    def __init__(self, screen: DemoScreen, title: str, live: LiveScreen | None) -> None:
        self._screen, self._title, self._live = screen, title, live

    def advance(self, done: int, total: int, detail: str, *, is_milestone: bool = False) -> None:
        """Redraw the live line; where there is none, a milestone is printed and everything else is not."""
        if self._live is not None:
            part = bar(done / max(total, 1), _BAR_LENGTH)
            self._live.draw(lambda: [f"{' ' * _INDENT}{markup(self._title, 'own')}  {part}"], detail)
        elif is_milestone:
            self._screen.line(detail)


class DemoScreen:
    """Where the demo writes: stdout, or stderr where stdout is for JSON."""

    def __init__(self, console: Console | None = None, *, to_stderr: bool = False) -> None:
        self._console = console or console_for(to_stderr=to_stderr)
        if not self._console.is_terminal and "COLUMNS" not in os.environ:
            self._console.width = WIDTH
        self._style = colour(self._console)
        self._sections = 0

    @property
    def is_live(self) -> bool:
        """Whether the output is a terminal."""
        return self._console.is_terminal and not self._console.is_dumb_terminal

    def title(self, text: str, rest: str) -> None:
        """Print the first line."""
        self._print(f"{self._style(text, 'head')}  {rest}", indent=0)

    def section(self, text: str) -> None:
        """Print a numbered heading."""
        self._sections += 1
        self._print("", indent=0)
        self._print(f"{self._style(str(self._sections), 'own')}  {self._style(text, 'head')}", indent=0)

    def line(self, text: str, *, style: str = "") -> None:
        """Print a line; a mark at its beginning is coloured."""
        kind = _KINDS.get(text[:1])
        self._print(self._style(text[:1], kind) + text[1:] if kind else self._style(text, style))

    def show(self, result: object) -> None:
        """Print one of the results."""
        width = min(self._console.width, WIDTH) - _INDENT
        for line in _lines(result, self._style, width):
            self._print(line)

    def conclude(self, results: Results, page: str) -> None:
        """Print the summary, and where the page is."""
        self.section("Summary")
        for finding in summary_of(results):
            self.line(f"{finding.sign} {finding.topic:<10}  {finding.text}")
        if results.quick:
            asked = f"a quick run: the test accuracy is not compared with the {TARGET:.0%} of a full run"
            self.line(asked, style="dim")
        for failure in results.failures:
            self.line(f"{BAD} {failure}")
        self.line(f"report: {page}   ({results.seconds:.0f} s)")

    @contextmanager
    def step(self, title: str, total: int | None = None) -> Iterator[Step]:
        """Show a bar while something runs; it goes away at the end, so what came of it has to be printed."""
        if not self.is_live:
            yield Step(self, title, None)
            return
        with LiveScreen(self._console) as live:
            step = Step(self, title, live)
            step.advance(0, total or 1, "")
            yield step

    def _print(self, text: str, indent: int = _INDENT) -> None:
        echo([f"{' ' * indent}{text}".rstrip()], self._console)


def _lines(result: object, style: Style, width: int) -> Iterator[str]:
    match result:
        case Report():
            return check_lines(result, style=style, width=width)
        case BenchReport():
            return bench_lines(result, style=style, width=width)
        case Agreement():
            return table_lines(agreement_table(result), style=style, width=width)
        case [first, *_] if type(first) in _TABLES:
            return table_lines(_TABLES[type(first)](result), style=style, width=width)
    raise TypeError(f"nothing shows a {type(result).__name__}")
