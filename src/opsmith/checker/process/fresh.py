"""Runs the program of a finding in a new Python process, as a user would, and judges its call there once more.

The process is forked from a server that has torch and opsmith imported and nothing of the user's, so it costs what the
import of the user's module costs. The server starts with the first finding of this process and ends with it.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import pickle
import re
import select
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsmith.build.standalone import take_for_copies
from opsmith.checker.process.child import Ended, Send, in_child
from opsmith.checker.process.pipes import answers_of_this_process, read_frame, start_python, write_frame
from opsmith.subject.case import Case

__all__ = ["Again", "Request", "find_by_file", "run_again", "serve"]

_START_S = 60.0
_SERVE = "from opsmith.checker.process.fresh import serve; serve()"


@dataclass(frozen=True)
class Request:
    """A program, by what names it knows the operator and the reference ("" for the operator's own), and its call.

    `property` is the name of the one that failed; `files` are where the modules lie that the program imports. A program
    that is silent for `silence_s` hangs.
    """

    text: str
    operator: str
    reference: str
    property: str
    case: Case
    earlier: tuple[Case, ...]
    device: str
    dtypes: Mapping[str, str]
    seed: int
    is_crash: bool
    files: Mapping[str, str]
    silence_s: float


@dataclass(frozen=True)
class Again:
    """What came of a program: whether it failed again, or why it could not be run."""

    failed: bool = False
    why_not: str = ""


def run_again(request: Request, until_s: float) -> Again:
    """Run a program in a new process; it ends at `until_s`, a moment of time.monotonic, at the latest."""
    try:
        packed = pickle.dumps((request, list(sys.path), dict(os.environ), str(Path.cwd()), until_s))
    except Exception as error:
        return Again(why_not=f"its arguments cannot be sent to another process ({type(error).__name__})")
    try:
        return _server().ask(packed, request.silence_s, until_s)
    except (OSError, EOFError) as error:
        return Again(why_not=f"the process for it ended: {error}")


class _Server:
    """The process that forks those of programs."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._process = start_python(_SERVE)

    def ask(self, packed: bytes, silence_s: float, until_s: float) -> Again:
        """Send a request and return the answer; raises EOFError where there is none in time."""
        assert self._process.stdin is not None and self._process.stdout is not None
        write_frame(self._process.stdin, packed)
        patience_s = min(until_s - time.monotonic() + 1.0, _START_S + 4 * silence_s)
        ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, patience_s))
        if not ready:
            self.close()
            raise EOFError("it did not answer in time")
        answer = pickle.loads(read_frame(self._process.stdout))
        assert isinstance(answer, Again)
        return answer

    @property
    def is_running(self) -> bool:
        """Whether it is this process's own, and lives."""
        return self.owner == os.getpid() and self._process.poll() is None

    def close(self) -> None:
        """End it."""
        if self.owner == os.getpid():
            self._process.kill()
            self._process.wait()


_servers: list[_Server] = []


def _server() -> _Server:
    if not _servers or not _servers[-1].is_running:
        _servers[:] = [_Server()]
        atexit.register(_servers[-1].close)
    return _servers[-1]


def serve() -> None:
    """Answer requests until there are no more, each in a process of its own."""
    from opsmith.checker.process.child import die_with_parent
    from opsmith.checker.properties import gradients, values  # noqa: F401 -- for all that are forked

    die_with_parent()
    take_for_copies()
    answers = answers_of_this_process()
    while True:
        try:
            packed = read_frame(sys.stdin.buffer)
        except EOFError:
            return
        write_frame(answers, pickle.dumps(_answer(packed)))


def _answer(packed: bytes) -> Again:
    """Run a request's program in a child, and judge its call in another."""
    # A case holds tensors and plain data alone, so it needs none of the user's modules.
    request, search, environment, folder, until_s = pickle.loads(packed)

    def prepared(send: Send) -> dict[str, Any]:
        sys.path[:] = search
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        find_by_file(request.files)
        send(None)
        return {"__name__": "program"}

    def run(send: Send) -> None:
        names = prepared(send)
        head = "\n".join(line for line in request.text.splitlines() if re.match(r"(import|from) ", line))
        try:
            exec(head, names)
        except BaseException as error:
            send(f"{type(error).__name__}: {error}"[:200])
            return
        send(None)
        with contextlib.suppress(Exception):  # what the operator raises is the finding
            exec(compile(request.text, "<program>", "exec"), names)

    def judge(send: Send) -> None:
        names = prepared(send)
        head = "\n".join(line for line in request.text.splitlines() if re.match(r"(import|from) ", line))
        exec(head, names)
        send(bool(_message(request, names)))

    ended, found = _last(run, request.silence_s, until_s)
    if isinstance(found, str):
        return Again(why_not=found)
    died = ended.hung or (bool(ended.crash) and ended.crash != "exit status 1")
    if died or request.is_crash or ended.is_late:
        return Again(died, "there was no time for it" if ended.is_late else "")
    ended, found = _last(judge, request.silence_s, until_s)
    if ended.is_late:
        return Again(why_not="there was no time for it")
    if ended.crash == "exit status 1":
        return Again(why_not=(ended.output.splitlines() or ["it fails"])[-1][:200])
    return Again(bool(found) or bool(ended.crash))


def _last(work: Any, silence_s: float, until_s: float) -> tuple[Ended, Any]:
    """Return how a child ended, and the last that it sent."""
    found: Any = None
    for message in in_child(work, silence_s=silence_s, until_s=until_s):
        if isinstance(message, Ended):
            return message, found
        found = message
    raise AssertionError("a child's messages end with how it ended")


def _message(request: Request, names: dict[str, Any]) -> str:
    from opsmith.checker.judge import message_of
    from opsmith.checker.properties.context import Context
    from opsmith.subject.subject import subject_of

    operator = eval(request.operator.removesuffix(".torch_op"), names)
    reference = eval(request.reference, names) if request.reference else None
    subject = subject_of(
        operator, reference=reference, examples=[request.case.build()], devices=(request.device,), seed=request.seed
    )
    return message_of(Context(subject, request.device, request.dtypes), request.property, request.case, request.earlier)


class _ByFile(importlib.abc.MetaPathFinder):
    """Finds modules that are not on the path where the first process had them from: scripts and files of tests."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        file = self._files.get(name)
        return None if file is None else importlib.util.spec_from_file_location(name, file)


def find_by_file(files: Mapping[str, str]) -> None:
    """Have imports find these modules in these files, where the path does not lead to them."""
    sys.meta_path.append(_ByFile(files))
