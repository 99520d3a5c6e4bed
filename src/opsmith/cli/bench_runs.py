"""Repeats a benchmark in further processes, one after the other: `opsmith bench PATH --runs N`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opsmith import _subprocess
from opsmith.benchmark.options import BenchOptions
from opsmith.errors import OpsmithError

if TYPE_CHECKING:
    from opsmith.benchmark.result import BenchReport

__all__ = ["run_again", "with_defaults"]

# The defaults of a comparison: several processes, because times differ between them, and eager as the only competitor.
_RUNS_TO_COMPARE, _SECONDS, _AGAINST_TO_COMPARE = 5, 60.0, ("eager",)

# Options about how an operator is timed; the others are about what the first process shows.
_HANDED_ON = frozenset({"imports", *(field.name for field in fields(BenchOptions))})


def with_defaults(values: Mapping[str, Any], *, compares: bool) -> dict[str, Any]:
    """Return a command line's values with the defaults that depend on each other: processes, seconds, competitors."""
    runs = values["runs"] or (_RUNS_TO_COMPARE if compares else 1)
    seconds = _SECONDS / runs if values["seconds"] is None else values["seconds"]
    against = values["against"] or (_AGAINST_TO_COMPARE if compares else ())
    return {**values, "runs": runs, "seconds": seconds, "against": against}


def run_again(command: click.Command, target: str, values: Mapping[str, Any]) -> BenchReport:
    """Time one operator in a process of its own, with the same options of a command.

    Raises OpsmithError, with what the process printed, where it has left no report.
    """
    from opsmith.benchmark.as_json import read_reports

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        argv = [sys.executable, "-m", "opsmith", "bench", target, *_options(command, values), "--json", str(file)]
        # As this process sees modules: its own folder, and what others have put before it.
        done = _subprocess.run(argv, env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
        # One that finds something wrong exits with 1 and has a report.
        if not file.is_file():
            raise OpsmithError(f"another run of {target} wrote no report; it printed\n{done.output.strip()}")
        (report,) = read_reports(file)
    return report


def _options(command: click.Command, values: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for parameter in command.params:
        if parameter.name in _HANDED_ON and (value := values[parameter.name]) is not None:
            for item in value if isinstance(value, tuple) else (value,):
                found += [parameter.opts[0], str(item)]
    return found
