"""`opsmith bench PATH --runs N`: the same benchmark in further processes, one after the other."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from opsmith import _subprocess
from opsmith.errors import OpsmithError

if TYPE_CHECKING:
    from opsmith.bench.result import BenchReport

__all__ = ["run_again"]

# Options that say how an operator is timed; the others are about what is shown, by the process that was asked.
_HANDED_ON = frozenset(
    {"device", "dtypes", "sizes", "phases", "against", "seconds", "seed", "threads", "reference", "examples", "imports"}
)


def run_again(context: click.Context, target: str) -> BenchReport:
    """Time one operator in a process of its own, with the options of a command line.

    Raises OpsmithError, with what the process printed, where it has left no report.
    """
    from opsmith.bench.render.as_json import read_reports

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        argv = [sys.executable, "-m", "opsmith", "bench", target, *_options(context), "--json", str(file)]
        # As this process sees modules: its own folder, and what others have put before it.
        done = _subprocess.run(argv, env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
        # One that finds something wrong exits with 1 and has a report.
        if not file.is_file():
            raise OpsmithError(f"a further run of {target} left no report; it printed\n{done.output.strip()}")
        (report,) = read_reports(file)
    return report


def _options(context: click.Context) -> list[str]:
    found: list[str] = []
    for parameter in context.command.params:
        name = str(parameter.name)
        if name in _HANDED_ON and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            value = context.params[name]
            for item in value if isinstance(value, tuple) else (value,):
                found += [parameter.opts[0], str(item)]
    return found
