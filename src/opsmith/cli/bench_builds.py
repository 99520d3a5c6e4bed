"""Compares builds of one operator by JIT, setuptools and CMake: `opsmith bench PATH --builds`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opsmith.benchmark.options import BenchOptions
from opsmith.cli.bench_runs import with_defaults
from opsmith.cli.options import is_given, read_options
from opsmith.cli.selection import import_modules, refuse_missing_gpu
from opsmith.errors import ArgumentError

if TYPE_CHECKING:
    from opsmith.benchmark.build_result import BuildReport

__all__ = ["compare_builds"]

# What of `opsmith bench` has a meaning here.
_OURS = frozenset({"path", "builds", "imports", "device", "dtypes", "sizes", "seconds", "seed", "json_file"})
_STDOUT = "-"


def compare_builds(context: click.Context) -> bool:
    """Compare the builds of the operators that a command line names and print it; return whether all results are equal.

    Raises ArgumentError for options that say nothing about builds, and for names that do not exist.
    """
    values = with_defaults(context.params, compares=False)
    _refuse(context)
    json_file: str | None = values["json_file"]
    reports = []
    for report in _reports(values["path"], values["imports"], values):
        reports.append(report)
        if json_file != _STDOUT:
            _echo(report)
    if json_file is not None:
        text = json.dumps([report.as_json() for report in reports], indent=2) + "\n"
        if json_file == _STDOUT:
            click.echo(text, nl=False)
        else:
            Path(json_file).parent.mkdir(parents=True, exist_ok=True)
            Path(json_file).write_text(text, encoding="utf-8")
    return all(report.ok for report in reports)


def _refuse(context: click.Context) -> None:
    for parameter in context.command.params:
        name = str(parameter.name)
        if name not in _OURS and is_given(context, name):
            raise ArgumentError(
                f"{parameter.opts[-1]} cannot be combined with --builds, which compares builds with each other"
            )


def _reports(path: str, imports: tuple[str, ...], values: Mapping[str, Any]) -> Iterator[BuildReport]:
    from opsmith.benchmark.api import bench_subject
    from opsmith.benchmark.builds import BuildOptions, bench_builds
    from opsmith.subject.find import find_operators
    from opsmith.subject.selection import dtype_names

    import_modules(imports)
    options = read_options(BenchOptions, values)
    refuse_missing_gpu(options.device)
    dtypes = dtype_names(options.dtypes)
    if len(dtypes) > 1:
        raise ArgumentError("--builds takes only one --dtype")
    build_options = BuildOptions(
        seconds=options.seconds, dtype=next(iter(dtypes), None), sizes=tuple(options.sizes), seed=options.seed
    )
    for op in find_operators(path):
        subject, device = bench_subject(op, options)
        yield bench_builds(subject, device, build_options, _watch(subject.name))


def _watch(name: str) -> Callable[[str], None] | None:
    """Return a function that announces the next step; nothing moves during timing."""
    return (lambda text: click.echo(f"{name}: {text} ...", err=True)) if sys.stderr.isatty() else None


def _echo(report: BuildReport) -> None:
    from opsmith.report.bench.builds import build_lines
    from opsmith.report.terminal import colour, console_for, echo

    console = console_for()
    echo(build_lines(report, style=colour(console)), console)
