"""Checks an operator in a new process, where children of this one could not differentiate (see `process.forks`).

The new process imports the operator, its reference and its examples by name, from the files that this one has them from.
What cannot be imported, such as an operator of a notebook's, has to be checked here.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from opsmith.build.standalone import take_for_copies
from opsmith.checker.options import CheckOptions
from opsmith.checker.plans import plan_of, subject_for
from opsmith.checker.process.child import die_with_parent
from opsmith.checker.process.fresh import find_by_file
from opsmith.checker.process.pipes import answers_of_this_process, read_frame, start_python, write_frame
from opsmith.checker.report import Report
from opsmith.checker.run import run_check
from opsmith.errors import OpsmithError
from opsmith.runtime.operator import Operator

__all__ = ["checked_anew", "serve"]

_SERVE = "from opsmith.checker.anew import serve; serve()"


@dataclass(frozen=True)
class _Named:
    """What a module calls something."""

    module: str
    name: str

    def found(self) -> Any:
        """Import the module and return it; raises whatever the import raises, and AttributeError."""
        value = importlib.import_module(self.module)
        for part in self.name.split("."):
            value = getattr(value, part)
        return value


@dataclass(frozen=True)
class _Request:
    """An operator and its options, in which functions are named, and where this process has modules from."""

    operator: _Named
    options: CheckOptions
    functions: Mapping[str, _Named]
    files: Mapping[str, str]
    search: tuple[str, ...]


def checked_anew(op: Any, options: CheckOptions) -> Report | None:
    """Return the report of a check in a new process, or None where that cannot import what it needs.

    Raises what the check raises: ArgumentError, BuildError.
    """
    request = _request_of(op, options)
    if request is None:
        return None
    try:
        packed = pickle.dumps(request)
    except Exception:
        return None  # tensors of a notebook's own classes, functions inside of functions
    answer = _answer_of(packed)
    if isinstance(answer, OpsmithError):
        raise answer
    return answer


def _request_of(op: Any, options: CheckOptions) -> _Request | None:
    functions = {"reference": options.reference, "examples": options.examples}
    named = {name: _name_of(value) for name, value in functions.items() if callable(value)}
    operator = _name_of(op)
    if operator is None or None in named.values():
        return None
    known = {name: one for name, one in named.items() if one is not None}
    modules = {one.module for one in (operator, *known.values())}
    files = {name: file for name in modules if (file := getattr(sys.modules[name], "__file__", None))}
    # Functions of modules that are known by their file alone could not be pickled by name.
    plain = replace(
        options,
        reference=None if "reference" in known else options.reference,
        examples=None if "examples" in known else options.examples,
    )
    return _Request(operator, plain, known, files, tuple(sys.path))


def _name_of(value: Any) -> _Named | None:
    """Return by which name a module has something, or None where none has that can be imported."""
    if isinstance(value, Operator):
        named = _Named(value.definition.module, value.definition.name)
    else:
        named = _Named(str(getattr(value, "__module__", "")), str(getattr(value, "__qualname__", "")))
    if named.module == "__main__" or named.module not in sys.modules:
        return None
    try:
        return named if named.found() is value else None
    except AttributeError:
        return None


def _answer_of(packed: bytes) -> Report | OpsmithError | None:
    """Return what the new process answers, or None where it ends without an answer."""
    with start_python(_SERVE) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            write_frame(process.stdin, packed)
            answer: Report | OpsmithError = pickle.loads(read_frame(process.stdout))
        except (BrokenPipeError, EOFError):
            return None
        finally:
            process.kill()
        return answer


def serve() -> None:
    """Check what is asked for, and answer with the report or an exception of opsmith's."""
    die_with_parent()
    take_for_copies()
    answers = answers_of_this_process()
    request: _Request = pickle.loads(read_frame(sys.stdin.buffer))
    sys.path[:] = request.search
    find_by_file(request.files)
    answer: Report | OpsmithError
    try:
        answer = _checked(request)
    except OpsmithError as error:
        answer = error
    write_frame(answers, pickle.dumps(answer))


def _checked(request: _Request) -> Report:
    functions = {name: named.found() for name, named in request.functions.items()}
    options = replace(request.options, **functions)
    return run_check(subject_for(request.operator.found(), options), plan_of(options))
