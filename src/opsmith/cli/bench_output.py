"""Where `opsmith bench` shows what it has found: a screen, a stream for programs, files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from opsmith.benchmark.compare import Comparison
    from opsmith.benchmark.progress import Watch
    from opsmith.benchmark.result import BenchReport

__all__ = ["STDOUT", "Output"]

STDOUT = "-"


@dataclass(frozen=True)
class Output:
    """What is shown, and where it goes besides."""

    json_file: str | None
    page: Path | None
    as_markdown: bool
    verbose: bool

    @property
    def is_json(self) -> bool:
        """Whether standard output is for a program."""
        return self.json_file == STDOUT

    def screen(self) -> AbstractContextManager[Watch | None]:
        """Return what shows how far it is: on standard error, so that standard output is the report alone."""
        from opsmith.benchmark.render.live import TableScreen, line_watcher

        console = _console(to_stderr=True)
        if console.is_terminal:
            return TableScreen(console)
        return nullcontext(line_watcher(sys.stderr) if self.verbose else None)

    def show(self, reports: Iterator[BenchReport]) -> Iterator[BenchReport]:
        """Yield reports when they have been printed: each as soon as it is there."""
        from opsmith.benchmark.render.live import colour
        from opsmith.benchmark.render.markdown import report_markdown
        from opsmith.benchmark.render.text import report_lines

        console = _console()
        width = console.width if console.is_terminal else 120
        for number, report in enumerate(reports):
            if self.as_markdown:
                click.echo(report_markdown(report))
            elif not self.is_json:
                if number:
                    click.echo()
                _echo(report_lines(report, style=colour(console), width=width, verbose=self.verbose), console)
            yield report

    def show_comparison(self, comparison: Comparison, earlier: Path) -> None:
        """Print what has become of the operators since an earlier report, which is named."""
        from opsmith.benchmark.render.changes import comparison_lines
        from opsmith.benchmark.render.live import colour

        console = _console(to_stderr=self.is_json)
        _echo(["", *comparison_lines(comparison, str(earlier), style=colour(console))], console)

    def write(self, reports: list[BenchReport], comparison: Comparison | None) -> None:
        """Write what goes to files and to programs."""
        if self.json_file is not None:
            from opsmith.benchmark.render.as_json import reports_as_json

            text = reports_as_json(reports, comparison)
            if self.is_json:
                click.echo(text, nl=False)
            else:
                _write_file(Path(self.json_file), text)
        if self.page is not None:
            from opsmith.benchmark.render.html import reports_as_html

            _write_file(self.page, reports_as_html(reports))


def _write_file(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}") from error
    click.echo(f"report: {file}", err=True)


def _console(*, to_stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=to_stderr, highlight=False, markup=False, emoji=False)


def _echo(lines: Iterable[str], console: Console) -> None:
    from opsmith.benchmark.render.text import for_encoding

    for line in lines:
        click.echo(for_encoding(line, console.encoding), color=console.color_system is not None, err=console.stderr)
