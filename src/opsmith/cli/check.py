"""Checks operators from the command line: `opsmith check`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from opsmith.checker.options import CheckOptions
from opsmith.cli.check_mutate import MUTATION_OPTIONS, run_mutation
from opsmith.cli.completion import complete_path
from opsmith.cli.options import flags_for_one, options_of, read_options
from opsmith.cli.selection import import_modules, refuse_several, refuse_unwritable, usage_errors
from opsmith.errors import ArgumentError

if TYPE_CHECKING:
    from opsmith.checker.report import Report
    from opsmith.checker.run import CheckPlan, Watcher
    from opsmith.subject.subject import Subject

__all__ = ["command"]


@click.command("check")
@click.argument("path", shell_complete=complete_path, metavar="PATH[::OP]")
@options_of(CheckOptions)
@click.option(
    "--import", "imports", metavar="MODULE", multiple=True, help="Import this module first: it defines the operator."
)
@click.option(
    "--sanitize",
    metavar="KIND",
    help="Run under address, undefined or thread; on a GPU memcheck, racecheck, initcheck or synccheck.",
)
@click.option(
    "--mutate", is_flag=True, help="Plant faults into copies of the kernels, and print how many of them a check finds."
)
@click.option("--mutants", metavar="N|all", help="With --mutate: how many, spread over kinds and lines.  [default: 40]")
@click.option(
    "--mutate-headers", is_flag=True, help="With --mutate: also into the headers of yours that the kernels include."
)
@click.option(
    "--min-score", metavar="PERCENT", type=float, help="With --mutate: exit with 1 if fewer mutants are found."
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option(
    "--html", "page", type=click.Path(path_type=Path, dir_okay=False), help="Write the report as an HTML page."
)
@click.option("-v", "--verbose", is_flag=True, help="Show each result, findings in every column, notes and times.")
def command(
    path: str,
    imports: tuple[str, ...],
    sanitize: str | None,
    mutate: bool,
    as_json: bool,
    page: Path | None,
    verbose: bool,
    **values: object,
) -> None:
    """Check the operators of PATH: a module's name, a .py file, a folder, or torch.ops.NAMESPACE.NAME.

    Inputs are generated from the definition. Exits with 0 if every property holds, 1 if one fails, and 2 if the command
    line is wrong.
    """
    with usage_errors():
        refuse_unwritable(page)
        if mutate or any(values[name] for name in MUTATION_OPTIONS):
            _refuse_beside_mutate(mutate, sanitize, page)
            sys.exit(0 if run_mutation(path, imports, values, as_json=as_json, verbose=verbose) else 1)
        if sanitize is not None:
            reports = _sanitize(path, imports, sanitize, as_json, verbose, values)
        else:
            subjects, plan = _read(path, imports, values)
            reports = (_show_json if as_json else _show_text)(subjects, plan, verbose)
    if page is not None:
        from opsmith.report.check.page import reports_as_html

        page.write_text(reports_as_html(reports), encoding="utf-8")
    if not all(report.ok for report in reports):
        sys.exit(1)


def _refuse_beside_mutate(mutate: bool, sanitize: str | None, page: Path | None) -> None:
    """Raise ArgumentError for an option of --mutate without it, and for what has no meaning beside it."""
    if not mutate:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in MUTATION_OPTIONS)
        raise ArgumentError(f"{flags} belong to --mutate")
    if sanitize is not None or page is not None:
        raise ArgumentError(f"--{'html' if page is not None else 'sanitize'} and --mutate cannot be combined")


def _read(path: str, imports: tuple[str, ...], values: Mapping[str, object]) -> tuple[list[Subject], CheckPlan]:
    """Return what is checked, and how. Nothing is built for a command line that is wrong."""
    from opsmith.checker.plans import plan_of, subject_for
    from opsmith.subject.find import find_operators

    import_modules(imports)
    options = read_options(CheckOptions, values)
    plan = plan_of(options)
    operators = find_operators(path)
    refuse_several(path, operators, flags_for_one(CheckOptions, values))
    lines = tuple(f"import {module}" for module in imports)
    return [replace(subject_for(op, options), imports=lines) for op in operators], plan


def _sanitize(
    path: str, imports: tuple[str, ...], kind: str, as_json: bool, verbose: bool, values: Mapping[str, object]
) -> list[Report]:
    """Run the operators under a sanitizer, which has its own properties and devices."""
    from opsmith._keywords import names_in
    from opsmith.checker.sanitize.run import Request, run_sanitizer
    from opsmith.subject.find import find_operators

    if unfit := [name for name in ("devices", "properties", "thorough", "large") if values[name]]:
        flag = {"devices": "device", "properties": "property"}.get(unfit[0], unfit[0])
        raise ArgumentError(
            f"--{flag} and --sanitize cannot be combined: a sanitizer has its own properties and devices"
        )
    import_modules(imports)
    options = read_options(CheckOptions, {**values, "reference": None, "examples": None})
    request = Request(
        path,
        cast("str | None", values["reference"]),
        cast("str | None", values["examples"]),
        imports,
        names_in(cast("tuple[str, ...]", options.dtypes)),
        options.seed,
        options.seconds,
    )
    reports = []
    for op in find_operators(path):
        reports.append(run_sanitizer(op, kind, request))
        if not as_json:
            _echo(reports[-1], verbose)
    if as_json:
        _echo_json(reports)
    return reports


def _show_text(subjects: list[Subject], plan: CheckPlan, verbose: bool) -> list[Report]:
    from opsmith.checker.run import run_check
    from opsmith.report.check.live import check_screen, line_watcher
    from opsmith.report.terminal import console_for

    console = console_for()
    reports = []
    for subject in subjects:
        screen: AbstractContextManager[Watcher | None]
        if console.is_terminal:
            screen = check_screen(console, subject.name)
        else:
            screen = nullcontext(line_watcher(subject.name, sys.stderr) if verbose else None)
        with screen as watch:
            reports.append(run_check(subject, plan, watch))
        _echo(reports[-1], verbose)
        if len(subjects) > 1:
            click.echo()
    return reports


def _echo(report: Report, verbose: bool) -> None:
    from opsmith.report.check.text import report_lines
    from opsmith.report.terminal import colour, console_for, echo, line_width

    console = console_for()
    width = line_width(console)
    echo(report_lines(report, style=colour(console), width=width, verbose=verbose), console)


def _show_json(subjects: list[Subject], plan: CheckPlan, verbose: bool) -> list[Report]:
    from opsmith.checker.run import run_check

    reports = [run_check(subject, plan) for subject in subjects]
    _echo_json(reports)
    return reports


def _echo_json(reports: list[Report]) -> None:
    from opsmith.checker.as_json import reports_as_json

    click.echo(json.dumps(reports_as_json(reports), indent=2, allow_nan=False))
