"""`opsmith bench PATH --runs N`: the same benchmark in further processes, one after the other."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opsmith import _subprocess
from opsmith.errors import OpsmithError

if TYPE_CHECKING:
    from opsmith.benchmark.result import BenchReport

__all__ = ["run_again", "settled"]

# What a comparison takes if nothing is said: one process says nothing about the next, and nobody but eager is compared.
_RUNS_TO_COMPARE, _SECONDS, _AGAINST_TO_COMPARE = 5, 60.0, ("eager",)

# Options that say how an operator is timed; the others are about what is shown, by the process that was asked.
_HANDED_ON = frozenset(
    {"device", "dtypes", "sizes", "phases", "against", "seconds", "seed", "threads", "reference", "examples", "imports"}
)


def settled(said: dict[str, Any], *, compares: bool) -> dict[str, Any]:
    """Return options with what nobody has said: how many processes there are, for how long each, and against whom."""
    runs = said["runs"] or (_RUNS_TO_COMPARE if compares else 1)
    seconds = _SECONDS / runs if said["seconds"] is None else said["seconds"]
    against = said["against"] or (_AGAINST_TO_COMPARE if compares else ())
    return {**said, "runs": runs, "seconds": seconds, "against": against}


def run_again(command: click.Command, target: str, said: dict[str, Any]) -> BenchReport:
    """Time one operator in a process of its own, with the same options of a command.

    Raises OpsmithError, with what the process printed, where it has left no report.
    """
    from opsmith.benchmark.as_json import read_reports

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        argv = [sys.executable, "-m", "opsmith", "bench", target, *_options(command, said), "--json", str(file)]
        # As this process sees modules: its own folder, and what others have put before it.
        done = _subprocess.run(argv, env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
        # One that finds something wrong exits with 1 and has a report.
        if not file.is_file():
            raise OpsmithError(f"a further run of {target} left no report; it printed\n{done.output.strip()}")
        (report,) = read_reports(file)
    return report


def _options(command: click.Command, said: dict[str, Any]) -> list[str]:
    found: list[str] = []
    for parameter in command.params:
        if parameter.name in _HANDED_ON and (value := said[parameter.name]) is not None:
            for item in value if isinstance(value, tuple) else (value,):
                found += [parameter.opts[0], str(item)]
    return found
