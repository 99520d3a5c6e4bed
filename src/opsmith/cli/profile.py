"""`opsmith profile`: where one call's time goes."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opsmith import _env
from opsmith.cli.selection import import_modules, named_functions, read_sizes, refuse_several
from opsmith.errors import ArgumentError, DefinitionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opsmith.profiler.result import ProfileReport

__all__ = ["command"]


@click.command("profile")
@click.argument("path", metavar="PATH[::OP]")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="[default: the GPU where there is one]")
@click.option("--dtype", help="float32, ...  [default: float32 where the operator takes it]")
@click.option("--size", "sizes", multiple=True, metavar="B=64,N=4096", help="Sizes by name; may be repeated.")
@click.option(
    "--phase", "phases", multiple=True, metavar="PHASE", help="forward, recording or backward; may be repeated."
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed makes the same inputs.")
@click.option("--reference", metavar="MODULE:FUNCTION", help="What the operator computes, in plain PyTorch.")
@click.option("--examples", metavar="MODULE:FUNCTION", help="Returns calls to profile: tuples of arguments.")
@click.option("--import", "imports", metavar="MODULE", multiple=True, help="Import it first: it defines the operator.")
@click.option(
    "--trace",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a Chrome trace of some calls at the largest size, of the last phase.",
)
@click.option("--no-ncu", is_flag=True, help="Do not ask Nsight Compute on a GPU.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(path: str, imports: tuple[str, ...], as_json: bool, **said: Any) -> None:
    """Say where the time of one call goes, for the operators of PATH: a module's name, a .py file or a folder.

    Exits with 0 where the parts add up to the call, 1 where they do not, which another program that takes the processor
    can bring about, and 2 where the command line is wrong.
    """
    # As `python -m` has it: a module of the folder in which one is can be named.
    sys.path.insert(0, str(Path.cwd()))
    # What is measured must not depend on whether a build in the background has come to its end.
    is_set = _env.read("OPSMITH_BRIDGE") is not None
    if not is_set:
        _tell_of_bridge()
    reports = []
    try:
        with nullcontext() if is_set else _env.overridden("OPSMITH_BRIDGE", "wait"):
            for report in _profiled(path, imports, **said):
                reports.append(report)
                if not as_json:
                    _echo(report)
    except (ArgumentError, DefinitionError) as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        click.echo(json.dumps([report.as_json() for report in reports], indent=2, allow_nan=False))
    if not all(report.ok for report in reports):
        sys.exit(1)


def _profiled(
    path: str,
    imports: tuple[str, ...],
    *,
    device: str | None,
    sizes: tuple[str, ...],
    seed: int,
    reference: str | None,
    examples: str | None,
    trace: Path | None,
    no_ncu: bool,
    **said: Any,
) -> Iterator[ProfileReport]:
    """Profile the operators of PATH; nothing is built for a command line that is wrong."""
    import torch

    from opsmith.benchmark.api import bench_subject
    from opsmith.profiler.api import profile_options
    from opsmith.profiler.run import run_profile
    from opsmith.subject.find import find_operators

    if device == "cuda" and not torch.cuda.is_available():
        raise ArgumentError("--device cuda: torch sees no GPU here")
    options = profile_options(sizes=map(read_sizes, sizes), trace=trace, ncu=not no_ncu, seed=seed, **said)
    import_modules(imports)
    given = named_functions(reference, examples)
    operators = find_operators(path)
    refuse_several(path, operators, [*given, *(["trace"] if trace is not None else [])])
    for op in operators:
        subject, where = bench_subject(op, device, seed=seed, **given)
        yield run_profile(subject, where, options, _watch(subject.name))


def _tell_of_bridge() -> None:
    """Say what is built first where that takes a while: the bridge, which is there once for each torch."""
    from opsmith.runtime.bridge import describe_bridge

    if sys.stderr.isatty() and describe_bridge()["library"] is None:
        click.echo("opsmith: building the fast path for calls, once for this torch ...", err=True)


def _watch(name: str) -> Callable[[str], None] | None:
    """Return what tells a person who waits what comes next; nothing moves while something is timed."""
    if not sys.stderr.isatty():
        return None
    return lambda text: click.echo(f"{name}: {text} ...", err=True)


def _echo(report: ProfileReport) -> None:
    from opsmith.report.profile.text import report_lines
    from opsmith.report.terminal import colour, console_for, echo

    console = console_for()
    echo(report_lines(report, style=colour(console)), console)
