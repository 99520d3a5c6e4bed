"""Profiles operators from the command line: `opsmith profile`."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from opsmith import _env
from opsmith._override import overridden
from opsmith._streams import is_terminal
from opsmith.cli.completion import complete_path
from opsmith.cli.options import flags_for_one, options_of, read_options
from opsmith.cli.selection import import_modules, refuse_missing_gpu, refuse_several, usage_errors
from opsmith.profiler.options import ProfileOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opsmith.profiler.result import ProfileReport

__all__ = ["command"]


@click.command("profile")
@click.argument("path", shell_complete=complete_path, metavar="PATH[::OP]")
@options_of(ProfileOptions, ncu={"help": "Do not run Nsight Compute on a GPU."})
@click.option(
    "--import", "imports", metavar="MODULE", multiple=True, help="Import this module first: it defines the operator."
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(path: str, imports: tuple[str, ...], as_json: bool, **values: object) -> None:
    """Show where the time of one call goes.

    PATH names operators: a module's name, a .py file, a folder, or torch.ops.NAMESPACE.NAME.

    Exits with 0 if the parts add up to the call, 1 if they do not, for example because another program uses the
    processor, and 2 if the command line is wrong.
    """
    # Measurements must not depend on whether a background build has finished.
    is_set = _env.read("OPSMITH_BRIDGE") is not None
    if not is_set:
        _tell_of_bridge()
    reports = []
    with usage_errors(), nullcontext() if is_set else overridden("OPSMITH_BRIDGE", "wait"):
        for report in _profiled(path, imports, values):
            reports.append(report)
            if not as_json:
                _echo(report)
    if as_json:
        click.echo(json.dumps([report.as_json() for report in reports], indent=2, allow_nan=False))
    if not all(report.ok for report in reports):
        sys.exit(1)


def _profiled(path: str, imports: tuple[str, ...], values: Mapping[str, object]) -> Iterator[ProfileReport]:
    """Profile the operators of PATH; nothing is built for a command line that is wrong."""
    from opsmith.benchmark.api import bench_subject
    from opsmith.profiler.run import run_profile
    from opsmith.subject.find import find_operators

    import_modules(imports)
    options = read_options(ProfileOptions, values)
    refuse_missing_gpu(options.device)
    operators = find_operators(path)
    refuse_several(path, operators, flags_for_one(ProfileOptions, values))
    for op in operators:
        subject, device = bench_subject(op, options)
        yield run_profile(subject, device, options, _watch(subject.name))


def _tell_of_bridge() -> None:
    """Say what is built first where that takes a while: the bridge, which is there once for each torch."""
    from opsmith.runtime.bridge_library import describe_bridge

    if is_terminal(sys.stderr) and describe_bridge()["library"] is None:
        click.echo("opsmith: building the fast path for calls, once per torch ...", err=True)


def _watch(name: str) -> Callable[[str], None] | None:
    """Return a function that announces the next step; nothing moves during timing."""
    if not is_terminal(sys.stderr):
        return None
    return lambda text: click.echo(f"{name}: {text} ...", err=True)


def _echo(report: ProfileReport) -> None:
    from opsmith.report.profile.text import report_lines
    from opsmith.report.terminal import colour, console_for, echo

    console = console_for()
    echo(report_lines(report, style=colour(console)), console)
