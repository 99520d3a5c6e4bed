"""Shows the results of `opsmith bench`: on a screen, as a stream for programs, in files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
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
        from opsmith.report.bench.live import bench_screen, line_watcher
        from opsmith.report.terminal import console_for

        console = console_for(to_stderr=True)
        if console.is_terminal:
            return bench_screen(console)
        return nullcontext(line_watcher(sys.stderr) if self.verbose else None)

    def show(self, reports: Iterator[BenchReport]) -> Iterator[BenchReport]:
        """Yield reports when they have been printed: each as soon as it is there."""
        from opsmith.report.bench.markdown import report_markdown
        from opsmith.report.bench.text import report_lines
        from opsmith.report.terminal import WIDTH, colour, console_for, echo

        console = console_for()
        width = console.width if console.is_terminal else WIDTH
        for number, report in enumerate(reports):
            if self.as_markdown:
                click.echo(report_markdown(report))
            elif not self.is_json:
                if number:
                    click.echo()
                echo(report_lines(report, style=colour(console), width=width, verbose=self.verbose), console)
            yield report

    def show_comparison(self, comparison: Comparison, earlier: Path) -> None:
        """Print what has become of the operators since an earlier report, which is named."""
        from opsmith.report.bench.changes import comparison_lines
        from opsmith.report.terminal import colour, console_for, echo

        console = console_for(to_stderr=self.is_json)
        echo(["", *comparison_lines(comparison, str(earlier), style=colour(console))], console)

    def write(self, reports: list[BenchReport], comparison: Comparison | None) -> None:
        """Write what goes to files and to programs."""
        if self.json_file is not None:
            from opsmith.benchmark.as_json import reports_as_json

            text = reports_as_json(reports, comparison)
            if self.is_json:
                click.echo(text, nl=False)
            else:
                _write_file(Path(self.json_file), text)
        if self.page is not None:
            from opsmith.report.bench.page import reports_as_html

            _write_file(self.page, reports_as_html(reports))


def _write_file(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}") from error
    click.echo(f"report: {file}", err=True)
