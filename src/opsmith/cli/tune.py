"""Chooses configurations of kernels from the command line: `opsmith tune`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opsmith.cli.completion import complete_path
from opsmith.cli.options import options_of, read_options
from opsmith.cli.selection import import_modules, refuse_missing_gpu, refuse_several, usage_errors
from opsmith.tuning.options import TuneOptions

if TYPE_CHECKING:
    from opsmith.tuning.measure import Tuned

__all__ = ["command"]


@click.command("tune")
@click.argument("path", shell_complete=complete_path, metavar="PATH[::OP]")
@options_of(TuneOptions)
@click.option(
    "--import", "imports", metavar="MODULE", multiple=True, help="Import this module first: it defines the operator."
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File for the list.  [default: tuned.py beside the definition]",
)
@click.option("--json", "as_json", is_flag=True, help="Print all that was measured as JSON.")
def command(path: str, imports: tuple[str, ...], output: Path | None, as_json: bool, **values: object) -> None:
    """Choose among the configurations of a Triton or NVRTC kernel by measuring them on this GPU.

    PATH names one operator: a module's name, a .py file or a folder, and ::OP where it has several.

    Each configuration of the launch is timed at each --size for which its condition holds, and its results are compared
    with the definition's. A list of those that are best, with conditions for the sizes between, is written to a module,
    which the definition then has in front of them: configs=[*tuned.SOFTMAX, *CONFIGS].

    Exits with 0 if the list was written, 1 if a configuration that should work gives wrong results, and 2 if the command
    line is wrong.
    """
    with usage_errors():
        tuned, file = _tuned(path, imports, output, values)
    if as_json:
        from opsmith.report.tune.text import as_data

        click.echo(json.dumps({**as_data(tuned), "file": str(file)}, indent=2, allow_nan=False))
    else:
        _echo(tuned, file)
    if any(text.startswith("wrong") for each in tuned.measured for text in each.errors.values()):
        sys.exit(1)


def _tuned(path: str, imports: tuple[str, ...], output: Path | None, values: dict[str, object]) -> tuple[Tuned, Path]:
    """Measure and write the list; the file is read before, so that nothing is measured for one that cannot be written."""
    from opsmith.benchmark.api import bench_subject
    from opsmith.benchmark.options import BenchOptions
    from opsmith.subject.find import find_operators
    from opsmith.tuning.contenders import contenders_of, launch_of
    from opsmith.tuning.file import read_lists, write
    from opsmith.tuning.measure import tune

    import_modules(imports)
    options = read_options(TuneOptions, values)
    operators = find_operators(path)
    refuse_several(path, operators, ["opsmith tune"])
    definition = operators[0].definition
    file = output or definition.root / "tuned.py"
    read_lists(file)
    contenders_of(launch_of(definition, options.phase))
    refuse_missing_gpu("cuda")
    subject, _ = bench_subject(operators[0], BenchOptions(device="cuda", seed=options.seed))
    tuned = tune(subject, options, lambda text: click.echo(f"{subject.name}: {text} ...", err=True))
    write(tuned, file)
    return tuned, file


def _echo(tuned: Tuned, file: Path) -> None:
    from opsmith.report.terminal import colour, console_for, echo
    from opsmith.report.tune.text import tuned_lines
    from opsmith.tuning.file import name_of

    console = console_for()
    echo(tuned_lines(tuned, style=colour(console), width=console.width), console)
    click.echo(f"{file}: {name_of(tuned)}")
