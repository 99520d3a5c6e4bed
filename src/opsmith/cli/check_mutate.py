"""Runs `opsmith check --mutate`: mutates operators and prints how many of the mutants a check finds."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from opsmith.cli.selection import import_modules
from opsmith.errors import ArgumentError

if TYPE_CHECKING:
    from opsmith.checker.mutate.report import MutationReport
    from opsmith.checker.mutate.run import MutationWatcher

__all__ = ["MUTATION_OPTIONS", "run_mutation"]

# What only means something together with --mutate, and what does not go with it.
MUTATION_OPTIONS = ("mutants", "mutate_headers", "min_score")
_UNFIT = ("reference", "examples", "thorough", "large")


def run_mutation(
    path: str, imports: tuple[str, ...], values: Mapping[str, Any], *, as_json: bool, verbose: bool
) -> bool:
    """Mutate the operators of PATH and print what was found; return whether all scores are high enough.

    Raises ArgumentError for options that make no sense here.
    """
    from opsmith.checker.mutate.api import mutated
    from opsmith.checker.mutate.options import MutateOptions
    from opsmith.subject.find import find_operators

    if unfit := [name for name in _UNFIT if values[name]]:
        raise ArgumentError(f"--{unfit[0]} and --mutate cannot be combined")
    devices = values["devices"] or ("cpu",)
    if len(devices) > 1:
        raise ArgumentError("--mutate takes one --device")
    import_modules(imports)
    options = MutateOptions(
        mutants=_count_of(values["mutants"]),
        headers=values["mutate_headers"],
        device=devices[0],
        dtypes=values["dtypes"] or None,
        properties=values["properties"] or None,
        seed=values["seed"] or 0,
        seconds=values["seconds"],
    )
    reports = []
    for op in find_operators(path):
        with _watch(op, as_json, verbose) as watch:
            reports.append(mutated(op, options, watch))
        if not as_json:
            _echo(reports[-1], verbose)
    if as_json:
        _echo_json(reports)
    least = values["min_score"]
    return least is None or all(report.score is not None and report.score >= least for report in reports)


def _count_of(text: str | None) -> int | None:
    """Return how many mutants are asked for; None stands for all."""
    if text is None:
        from opsmith.checker.mutate.options import MutateOptions

        return MutateOptions().mutants
    if text == "all":
        return None
    if not text.isdigit() or int(text) == 0:
        raise ArgumentError(f"--mutants {text}: give a whole number, or all")
    return int(text)


def _watch(op: Any, as_json: bool, verbose: bool) -> AbstractContextManager[MutationWatcher | None]:
    from opsmith.report.check.mutation import line_watcher, mutation_screen
    from opsmith.report.terminal import console_for

    console = console_for()
    title = getattr(op, "__name__", repr(op))
    if console.is_terminal and not as_json:
        return mutation_screen(console, title)
    return nullcontext(line_watcher(title, sys.stderr) if verbose else None)


def _echo(report: MutationReport, verbose: bool) -> None:
    from opsmith.report.check.mutation import report_lines
    from opsmith.report.terminal import colour, console_for, echo, line_width

    console = console_for()
    width = line_width(console)
    echo(report_lines(report, style=colour(console), width=width, verbose=verbose), console)
    click.echo()


def _echo_json(reports: list[MutationReport]) -> None:
    from opsmith.checker.as_json import machine_facts

    found = {"format": 1, "machine": machine_facts(), "operators": [report.as_json() for report in reports]}
    click.echo(json.dumps(found, indent=2, allow_nan=False))
