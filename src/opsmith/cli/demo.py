"""Builds, checks, times and trains an LLTM, and writes a report: `opsmith demo`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

__all__ = ["command"]


@click.command("demo")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("build/demo"),
    help="Folder for the report and the libraries.",
    show_default=True,
)
@click.option("--epochs", type=click.IntRange(min=1), help="How long to train.  [default: 40; 3 with --quick]")
@click.option("--quick", is_flag=True, help="Fewer calls, properties, seconds and epochs; any test accuracy passes.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON; the progress goes to stderr.")
def command(output: Path, epochs: int | None, quick: bool, as_json: bool) -> None:
    """Build an LLTM by JIT, setuptools and CMake, compare the builds, check, time and train it, and write a report.

    The exit code is 0 if the libraries that could be built (at least two) agree in every bit, every checked property
    holds, and the model reaches a test accuracy of 95 %. Otherwise it is 1. With --quick the accuracy does not count.
    """
    from opsmith.demo.digits import load_digits, require_extras
    from opsmith.toolchain.torch_install import require_torch

    require_torch()
    require_extras()

    from opsmith.demo.run import SEED, Options, run_demo
    from opsmith.demo.training import EPOCHS, QUICK_EPOCHS
    from opsmith.report.demo.page import write_report
    from opsmith.report.demo.screen import DemoScreen

    options = Options(output, epochs or (QUICK_EPOCHS if quick else EPOCHS), quick)
    screen, digits = DemoScreen(to_stderr=as_json), load_digits(SEED)
    results = run_demo(options, digits, screen)
    screen.conclude(results, str(write_report(results, digits, output)))
    if as_json:
        click.echo(results.to_json())
    if results.failures:
        sys.exit(1)
