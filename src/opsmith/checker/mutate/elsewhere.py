"""Mutates an operator in a new process, where this one has loaded it already.

`python -m opsmith.checker.mutate.elsewhere FILE` reads a request from a file and writes the report to `FILE.report`, both
pickled.
"""

from __future__ import annotations

import pickle
import sys
import tempfile
from pathlib import Path
from typing import Any

from opsmith import _subprocess
from opsmith.checker.mutate.options import MutateOptions
from opsmith.checker.mutate.report import MutationReport
from opsmith.errors import ArgumentError, OpsmithError
from opsmith.runtime.operator import Operator

__all__ = ["main", "mutate_elsewhere"]


def mutate_elsewhere(operator: Operator, options: MutateOptions) -> MutationReport:
    """Return the report of a new process; raises what `mutate_operator` raises there.

    Raises ArgumentError for an operator that no other process can import.
    """
    definition = operator.definition
    if definition.module == "__main__":
        raise ArgumentError(
            f"{definition.name} was called here and is defined in a script or a notebook, which no other process can "
            "import: put it into a module, or mutate it before its first call"
        )
    search = [str(Path(folder or ".").absolute()) for folder in sys.path]
    with tempfile.TemporaryDirectory(prefix="opsmith-mutate-") as folder:
        request = Path(folder, "request")
        request.write_bytes(pickle.dumps((search, definition.module, definition.name, options)))
        argv = [sys.executable, "-m", __name__, str(request)]
        source = str(Path(__file__).parents[3])
        done = _subprocess.run(argv, env={"PYTHONPATH": source})
        answer = request.with_suffix(".report")
        if not answer.is_file():
            raise ArgumentError(f"{definition.name} cannot be mutated in a new process:\n{done.output.strip()[-2000:]}")
        found = pickle.loads(answer.read_bytes())
    if isinstance(found, Exception):
        raise found
    assert isinstance(found, MutationReport)
    return found


def main(file: str) -> None:
    """Do what a request says."""
    request = Path(file)
    search, module, name, options = pickle.loads(request.read_bytes())
    sys.path[:] = search
    from opsmith.checker.mutate.run import mutate_operator
    from opsmith.subject.find import find_operators

    found: Any
    try:
        (operator,) = find_operators(f"{module}::{name}")
        found = mutate_operator(operator, options)
    except OpsmithError as error:
        found = error
    request.with_suffix(".report").write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
