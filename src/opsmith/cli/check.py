"""`opsmith check`: prove operators equal to their references, and say where they are not."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opsmith.cli.selection import import_modules, named_functions, refuse_several
from opsmith.errors import ArgumentError, DefinitionError

if TYPE_CHECKING:
    from opsmith.checker.report import Report
    from opsmith.checker.run import Options, Watcher
    from opsmith.subject.subject import Subject

__all__ = ["command"]


@click.command("check")
@click.argument("path", metavar="PATH[::OP]")
@click.option("--device", "devices", multiple=True, help="cpu or cuda; may be given twice.  [default: what is here]")
@click.option("--dtype", "dtypes", multiple=True, help="float32, ...; may be repeated.  [default: all it declares]")
@click.option("--property", "properties", multiple=True, help="One property by its name; may be repeated.")
@click.option("--seed", type=int, default=0, help="The same seed makes the same inputs.  [default: 0]")
@click.option("--reference", metavar="MODULE:FUNCTION", help="What the operator should compute, in plain PyTorch.")
@click.option("--examples", metavar="MODULE:FUNCTION", help="Returns calls to make: tuples of arguments.")
@click.option("--import", "imports", metavar="MODULE", multiple=True, help="Import it first: it defines the operator.")
@click.option("--thorough", is_flag=True, help="Try more inputs, and take the time for it.")
@click.option("--large", is_flag=True, help="Try tensors of more than 2^31 elements too.")
@click.option(
    "--sanitize",
    metavar="KIND",
    help="Run under address, undefined or thread; on a GPU memcheck, racecheck, initcheck or synccheck.",
)
@click.option("--seconds", type=click.FloatRange(min=0), help="With --sanitize: leave inputs out after this time.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--html", "page", type=click.Path(path_type=Path, dir_okay=False), help="Write the report as a page.")
@click.option("-v", "--verbose", is_flag=True, help="Show each result, findings in every column, notes and times.")
def command(
    path: str,
    imports: tuple[str, ...],
    sanitize: str | None,
    as_json: bool,
    page: Path | None,
    verbose: bool,
    **said: Any,
) -> None:
    """Check the operators of PATH: a module's name, a .py file, a folder, or torch.ops.NAMESPACE.NAME.

    Inputs are generated from the definition. Exits with 0 where every property holds, 1 where one failed, and 2 where the
    command line is wrong.
    """
    # As `python -m` has it: a module of the folder in which one is can be named.
    sys.path.insert(0, str(Path.cwd()))
    try:
        if sanitize is not None:
            reports = _sanitize(path, imports, sanitize, as_json, verbose, **said)
        else:
            subjects, options = _read(path, imports, **said)
            reports = (_show_json if as_json else _show_text)(subjects, options, verbose)
    except (ArgumentError, DefinitionError) as error:
        raise click.UsageError(str(error)) from error
    if page is not None:
        from opsmith.report.check.page import reports_as_html

        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(reports_as_html(reports), encoding="utf-8")
    if not all(report.ok for report in reports):
        sys.exit(1)


def _read(
    path: str,
    imports: tuple[str, ...],
    *,
    devices: tuple[str, ...],
    dtypes: tuple[str, ...],
    properties: tuple[str, ...],
    seed: int,
    reference: str | None,
    examples: str | None,
    thorough: bool,
    large: bool,
    seconds: float | None,
) -> tuple[list[Subject], Options]:
    """Return what is checked, and how. Nothing is built for a command line that is wrong."""
    if seconds is not None:
        raise ArgumentError("--seconds is for --sanitize alone")
    from opsmith.checker.properties.table import chosen
    from opsmith.checker.run import Options
    from opsmith.subject.find import find_operators
    from opsmith.subject.selection import dtype_names
    from opsmith.subject.subject import subject_of

    options = Options(properties=chosen(properties), dtypes=dtype_names(dtypes), thorough=thorough, large=large)
    import_modules(imports)
    said = named_functions(reference, examples)
    operators = find_operators(path)
    refuse_several(path, operators, said)
    given, calls = said.get("reference"), said.get("examples")
    subjects = [subject_of(op, reference=given, examples=calls, devices=devices or None, seed=seed) for op in operators]
    lines = tuple(f"import {module}" for module in imports)
    return [replace(subject, imports=lines) for subject in subjects], options


def _sanitize(
    path: str, imports: tuple[str, ...], kind: str, as_json: bool, verbose: bool, **said: Any
) -> list[Report]:
    """Run the operators under a sanitizer; properties and devices are what the sanitizer is for."""
    from opsmith.checker.sanitize.run import Request, run_sanitizer
    from opsmith.subject.find import find_operators
    from opsmith.subject.selection import dtype_names

    if not_for_it := [name for name in ("devices", "properties", "thorough", "large") if said[name]]:
        option = {"devices": "device", "properties": "property"}.get(not_for_it[0], not_for_it[0])
        raise ArgumentError(f"--{option} and --sanitize do not go together: a sanitizer runs what it is for")
    import_modules(imports)
    dtypes = dtype_names(said["dtypes"])
    request = Request(path, said["reference"], said["examples"], imports, dtypes, said["seed"], said["seconds"])
    reports = []
    for op in find_operators(path):
        reports.append(run_sanitizer(op, kind, request))
        if not as_json:
            _echo(reports[-1], verbose)
    if as_json:
        _echo_json(reports)
    return reports


def _show_text(subjects: list[Subject], options: Options, verbose: bool) -> list[Report]:
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
            reports.append(run_check(subject, options, watch))
        _echo(reports[-1], verbose)
        if len(subjects) > 1:
            click.echo()
    return reports


def _echo(report: Report, verbose: bool) -> None:
    from opsmith.report.check.text import report_lines
    from opsmith.report.terminal import WIDTH, colour, console_for, echo

    console = console_for()
    width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    echo(report_lines(report, style=colour(console), width=width, verbose=verbose), console)


def _show_json(subjects: list[Subject], options: Options, verbose: bool) -> list[Report]:
    from opsmith.checker.run import run_check

    reports = [run_check(subject, options) for subject in subjects]
    _echo_json(reports)
    return reports


def _echo_json(reports: list[Report]) -> None:
    from opsmith.checker.as_json import reports_as_json

    click.echo(json.dumps(reports_as_json(reports), indent=2, allow_nan=False))
