"""`opsmith bench`: time operators against their references, the compiler, and the machine's limit."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from opsmith.cli.bench_builds import compare_builds
from opsmith.cli.bench_output import STDOUT, Output
from opsmith.cli.bench_runs import run_again, settled
from opsmith.cli.selection import import_modules, named_functions, read_sizes, refuse_several
from opsmith.errors import ArgumentError, DefinitionError

if TYPE_CHECKING:
    from opsmith.benchmark.compare import Comparison
    from opsmith.benchmark.result import BenchReport
    from opsmith.benchmark.run import BenchOptions
    from opsmith.subject.subject import Subject

__all__ = ["command"]

# Options that are called otherwise than their parameters.
_OPTIONS = {"dtypes": "dtype", "sizes": "size", "phases": "phase"}


@click.command("bench")
@click.argument("path", metavar="PATH[::OP]")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="[default: the GPU where there is one]")
@click.option(
    "--dtype", "dtypes", multiple=True, help="float32, ...; may be repeated.  [default: float32, on a GPU bfloat16 too]"
)
@click.option("--size", "sizes", multiple=True, metavar="B=64,N=4096", help="Sizes by name; may be repeated.")
@click.option(
    "--phase",
    "phases",
    multiple=True,
    metavar="PHASE",
    help="forward, backward or both; may be repeated.  [default: all]",
)
@click.option(
    "--against",
    multiple=True,
    metavar="NAME",
    help="eager, compiled, reduce-overhead, max-autotune, graph, eager graph, or what @op.versus names; may be repeated.",
)
@click.option(
    "--seconds", type=float, help="How long one operator may take in a process.  [default: 60, shared by --runs]"
)
@click.option(
    "--runs",
    type=click.IntRange(1),
    help="How many processes; what differs between them is in the intervals.  [default: 1, with --compare 5]",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed makes the same inputs.")
@click.option("--threads", type=int, metavar="N", help="PyTorch's threads on the CPU.  [default: as many as it has]")
@click.option("--reference", metavar="MODULE:FUNCTION", help="What the operator computes, in plain PyTorch.")
@click.option("--examples", metavar="MODULE:FUNCTION", help="Returns calls to time: a list, or a dict of names.")
@click.option("--import", "imports", metavar="MODULE", multiple=True, help="Import it first: it defines the operator.")
@click.option(
    "--json",
    "json_file",
    is_flag=False,
    flag_value=STDOUT,
    metavar="[FILE]",
    help="Print the report as JSON, or write it to FILE.",
)
@click.option("--html", "page", type=click.Path(path_type=Path, dir_okay=False), help="Write the report as a page.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print tables for a README.")
@click.option(
    "--compare",
    "earlier",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Compare with an earlier report (--json FILE).",
)
@click.option(
    "--tolerance",
    type=float,
    metavar="PERCENT",
    help="What --compare lets pass however quiet the runs were.  [default: 3]",
)
@click.option(
    "--builds", is_flag=True, help="Compare builds by JIT, setuptools and CMake instead: their times, and calls."
)
@click.option("-v", "--verbose", is_flag=True, help="Show every competitor's time, by the clock too, and what is done.")
def command(
    path: str,
    imports: tuple[str, ...],
    json_file: str | None,
    page: Path | None,
    as_markdown: bool,
    earlier: Path | None,
    tolerance: float | None,
    builds: bool,
    verbose: bool,
    **said: Any,
) -> None:
    """Time the operators of PATH: a module's name, a .py file, a folder, or torch.ops.NAMESPACE.NAME.

    All competitors take turns in one run. PATH may be a report of an earlier run too (a .json file), which is then shown
    again. Exits with 0 where all is well, 1 where a result is wrong, the operator fails or, with --compare, has become
    slower beyond the noise, and 2 where the command line is wrong.
    """
    # As `python -m` has it: a module of the folder in which one is can be named.
    sys.path.insert(0, str(Path.cwd()))
    output = Output(json_file, page, as_markdown, verbose)
    try:
        if builds:
            sys.exit(0 if compare_builds(click.get_current_context()) else 1)
        _refuse(output, earlier, tolerance)
        before = () if earlier is None else _read(earlier)
        found = _stored(path, said) or _timed(
            path, output, before, settled({**said, "imports": imports}, compares=bool(before))
        )
        reports = list(output.show(found))
    except (ArgumentError, DefinitionError) as error:
        raise click.UsageError(str(error)) from error
    comparison = None
    if before and earlier is not None:
        try:
            comparison = _compare(before, reports, tolerance)
        except ArgumentError as error:
            output.write(reports, None)  # what has been measured is not lost
            raise click.UsageError(str(error)) from error
        output.show_comparison(comparison, earlier)
    output.write(reports, comparison)
    if not all(report.ok for report in reports) or not (comparison is None or comparison.ok):
        sys.exit(1)


def _refuse(output: Output, earlier: Path | None, tolerance: float | None) -> None:
    """Raise ArgumentError for options that do not go together, before a minute of measuring."""
    if output.is_json and output.as_markdown:
        raise ArgumentError("--json and --markdown both print; write one of them to a file: --json FILE")
    if tolerance is not None and earlier is None:
        raise ArgumentError("--tolerance is for --compare FILE")
    if tolerance is not None and not tolerance >= 0:
        raise ArgumentError(f"--tolerance {tolerance}: give a percentage, 0 or more")
    for file in [output.page, None if output.json_file in (None, STDOUT) else Path(str(output.json_file))]:
        if file is not None and file.is_dir():
            raise ArgumentError(f"{file} is a folder; name a file in it")


def _read(file: Path) -> tuple[BenchReport, ...]:
    from opsmith.benchmark.as_json import read_reports

    return read_reports(file)


def _stored(path: str, said: dict[str, Any]) -> Iterator[BenchReport] | None:
    """Return the reports of a file, or None where PATH names operators."""
    name, _, operator = path.partition("::")
    if not name.endswith(".json"):
        return None
    where = click.get_current_context().get_parameter_source
    if given := [option for option in said if where(option) is ParameterSource.COMMANDLINE]:
        raise ArgumentError(
            f"{path} is a report of an earlier run; --{_OPTIONS.get(given[0], given[0])} cannot change it"
        )
    reports = _read(Path(name))
    chosen = [
        report for report in reports if not operator or operator in (report.operator, report.operator.split(".")[-1])
    ]
    if not chosen:
        raise ArgumentError(f"{name} has no {operator!r}; it has {', '.join(report.operator for report in reports)}")
    return iter(chosen)


def _timed(path: str, output: Output, before: tuple[BenchReport, ...], said: dict[str, Any]) -> Iterator[BenchReport]:
    """Time the operators of PATH; nothing is built for a command line that is wrong."""
    from opsmith.benchmark.progress import Progress
    from opsmith.benchmark.run import run_bench
    from opsmith.benchmark.runs import combined

    subjects, options = _asked(path, before, **said)
    for subject, where in subjects:
        with output.screen() as watch:
            found = [run_bench(subject, where, options, watch)]
            target = path if len(subjects) == 1 else f"{path}::{subject.name.rpartition('.')[2]}"
            for number in range(2, said["runs"] + 1):
                if watch is not None:
                    doing = f"run {number} of {said['runs']}, in a new process"
                    watch(Progress(subject.name, doing, timings=found[0].timings))
                found.append(run_again(command, target, said))
        yield combined(found)


def _asked(
    path: str,
    before: tuple[BenchReport, ...],
    *,
    imports: tuple[str, ...],
    reference: str | None,
    examples: str | None,
    device: str | None,
    sizes: tuple[str, ...],
    runs: int,
    **said: Any,
) -> tuple[list[tuple[Subject, str]], BenchOptions]:
    """Return the operators of PATH, each with its device, and how they are timed; raises ArgumentError for what is wrong."""
    import torch

    from opsmith.benchmark.api import bench_options, bench_subject
    from opsmith.benchmark.compare import refuse_other_machine
    from opsmith.benchmark.machine import this_machine
    from opsmith.benchmark.run import refuse_wrong
    from opsmith.subject.find import find_operators
    from opsmith.subject.selection import forward_operators

    if device == "cuda" and not torch.cuda.is_available():
        raise ArgumentError("--device cuda: torch sees no GPU here")
    options = bench_options(sizes=map(read_sizes, sizes), **said)
    import_modules(imports)
    given = named_functions(reference, examples)
    operators = forward_operators(find_operators(path))
    refuse_several(path, operators, given)
    subjects = [bench_subject(op, device, seed=options.seed, **given) for op in operators]
    for subject, where in subjects:
        refuse_wrong(subject, where, options)
        machine = this_machine(where)
        for report in before:
            if report.operator == subject.name:
                refuse_other_machine(report, replace(machine, threads=options.threads or machine.threads))
    return subjects, options


def _compare(before: tuple[BenchReport, ...], now: list[BenchReport], tolerance: float | None) -> Comparison:
    from opsmith.benchmark.compare import TOLERANCE, compare_reports

    return compare_reports(before, now, tolerance=TOLERANCE if tolerance is None else tolerance / 100)
