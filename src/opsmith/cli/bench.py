"""Times operators from the command line: `opsmith bench`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opsmith.benchmark.options import BenchOptions
from opsmith.cli.bench_builds import compare_builds
from opsmith.cli.bench_output import STDOUT, Output
from opsmith.cli.bench_runs import run_again, with_defaults
from opsmith.cli.completion import complete_path
from opsmith.cli.options import flags_for_one, is_given, options_of, read_options
from opsmith.cli.selection import import_modules, refuse_missing_gpu, refuse_several, refuse_unwritable, usage_errors
from opsmith.errors import ArgumentError

if TYPE_CHECKING:
    from opsmith.benchmark.compare import Comparison
    from opsmith.benchmark.result import BenchReport
    from opsmith.subject.subject import Subject

__all__ = ["command"]


@click.command("bench")
@click.argument("path", shell_complete=complete_path, metavar="PATH[::OP]")
@options_of(
    BenchOptions,
    seconds={"help": "Time limit for one operator in a process.", "unset": "60, shared by --runs"},
)
@click.option(
    "--runs",
    type=click.IntRange(1),
    help="Number of processes; intervals include their differences.  [default: 1, with --compare 5]",
)
@click.option(
    "--import", "imports", metavar="MODULE", multiple=True, help="Import this module first: it defines the operator."
)
@click.option(
    "--json",
    "json_file",
    is_flag=False,
    flag_value=STDOUT,
    metavar="[FILE]",
    help="Print the report as JSON, or write it to FILE.",
)
@click.option(
    "--html", "page", type=click.Path(path_type=Path, dir_okay=False), help="Write the report as an HTML page."
)
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
    help="Slowdown that --compare always accepts.  [default: 3]",
)
@click.option(
    "--builds", is_flag=True, help="Compare builds by JIT, setuptools and CMake instead: build times and call times."
)
@click.option("-v", "--verbose", is_flag=True, help="Show every competitor's time, wall-clock time too, and progress.")
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
    **values: object,
) -> None:
    """Time the operators of PATH: a module's name, a .py file, a folder, or torch.ops.NAMESPACE.NAME.

    All competitors take turns in one run. PATH may also be the report of an earlier run (a .json file) to show again.
    Exits with 0 if all is well, 1 if a result is wrong, the operator fails or, with --compare, is slower beyond the
    noise, and 2 if the command line is wrong.
    """
    output = Output(json_file, page, as_markdown, verbose)
    with usage_errors():
        if builds:
            sys.exit(0 if compare_builds(click.get_current_context()) else 1)
        _refuse(output, earlier, tolerance)
        before = () if earlier is None else _read(earlier)
        found = _stored(path)
        if found is None:
            found = _timed(path, output, before, with_defaults({**values, "imports": imports}, compares=bool(before)))
        reports = list(output.show(found))
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
    """Raise ArgumentError for options that exclude each other, before a minute of measuring."""
    if output.is_json and output.as_markdown:
        raise ArgumentError("--json and --markdown both print; write one of them to a file: --json FILE")
    if tolerance is not None and earlier is None:
        raise ArgumentError("--tolerance needs --compare FILE")
    if tolerance is not None and not tolerance >= 0:
        raise ArgumentError(f"--tolerance {tolerance}: give a percentage, 0 or more")
    for file in [output.page, None if output.json_file in (None, STDOUT) else Path(str(output.json_file))]:
        if file is not None and file.is_dir():
            raise ArgumentError(f"{file} is a folder; name a file in it")
        refuse_unwritable(file)


def _read(file: Path) -> tuple[BenchReport, ...]:
    from opsmith.benchmark.as_json import read_reports

    return read_reports(file)


def _stored(path: str) -> Iterator[BenchReport] | None:
    """Return the reports of a file, or None if PATH names operators."""
    name, _, operator = path.partition("::")
    if not name.endswith(".json"):
        return None
    context = click.get_current_context()
    about_timing = {"runs", *(field.name for field in fields(BenchOptions))}
    for parameter in context.command.params:
        if parameter.name in about_timing and is_given(context, parameter.name):
            raise ArgumentError(f"{path} is a report of an earlier run; {parameter.opts[0]} cannot change it")
    reports = _read(Path(name))
    chosen = [
        report for report in reports if not operator or operator in (report.operator, report.operator.split(".")[-1])
    ]
    if not chosen:
        raise ArgumentError(f"{name} has no {operator!r}; it has {', '.join(report.operator for report in reports)}")
    return iter(chosen)


def _timed(
    path: str, output: Output, before: tuple[BenchReport, ...], values: Mapping[str, Any]
) -> Iterator[BenchReport]:
    """Time the operators of PATH; nothing is built for a command line that is wrong."""
    from opsmith.benchmark.progress import Progress
    from opsmith.benchmark.run import run_bench
    from opsmith.benchmark.runs import combined

    subjects, options = _subjects(path, before, values)
    for subject, device in subjects:
        with output.screen() as watch:
            found = [run_bench(subject, device, options, watch)]
            target = path if len(subjects) == 1 else f"{path}::{subject.name.rpartition('.')[2]}"
            for number in range(2, values["runs"] + 1):
                if watch is not None:
                    doing = f"run {number} of {values['runs']}, in a new process"
                    watch(Progress(subject.name, doing, timings=found[0].timings))
                found.append(run_again(command, target, values))
        yield combined(found)


def _subjects(
    path: str, before: tuple[BenchReport, ...], values: Mapping[str, Any]
) -> tuple[list[tuple[Subject, str]], BenchOptions]:
    """Return the operators of PATH, each with its device, and how they are timed; raises ArgumentError for what is wrong."""
    from opsmith.benchmark.api import bench_subject
    from opsmith.benchmark.compare import refuse_other_machine
    from opsmith.benchmark.machine import this_machine
    from opsmith.benchmark.run import refuse_wrong
    from opsmith.subject.find import find_operators

    import_modules(values["imports"])
    options = read_options(BenchOptions, values)
    refuse_missing_gpu(options.device)
    operators = find_operators(path)
    refuse_several(path, operators, flags_for_one(BenchOptions, values))
    subjects = [bench_subject(op, options) for op in operators]
    for subject, device in subjects:
        refuse_wrong(subject, device, options)
        machine = this_machine(device)
        for report in before:
            if report.operator == subject.name:
                refuse_other_machine(report, replace(machine, threads=options.threads or machine.threads))
    return subjects, options


def _compare(before: tuple[BenchReport, ...], now: list[BenchReport], tolerance: float | None) -> Comparison:
    from opsmith.benchmark.compare import TOLERANCE, compare_reports

    return compare_reports(before, now, tolerance=TOLERANCE if tolerance is None else tolerance / 100)
