"""Keeps the judgements of a batch in a file of JSON lines, by a key of everything that a judgement depends on."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import torch

from opsmith._version import __version__
from opsmith.benchmark.machine import this_machine
from opsmith.judging.candidate import Candidate
from opsmith.judging.options import JudgeOptions
from opsmith.judging.preparing import device_of
from opsmith.judging.result import Judgement
from opsmith.judging.task import Task
from opsmith.judging.tasks.flashinfer import workload_files

__all__ = ["BatchLog", "key_of"]


class BatchLog:
    """Judgements by key, in a file of lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, Judgement] = {}
        for line in _lines(path):
            try:
                content = json.loads(line)
                self._known[content["key"]] = Judgement.from_json(json.dumps(content["judgement"]))
            except (ValueError, KeyError, TypeError):
                continue  # a line on a run or a failure; one that was cut off, or of an older format: judged again

    def find(self, key: str) -> Judgement | None:
        """Return the judgement of a key, or None."""
        return self._known.get(key)

    def add(self, key: str, judgement: Judgement) -> None:
        """Add a judgement; the line is on the disk when this returns."""
        self._append({"key": key, "judgement": json.loads(judgement.to_json())})

    def add_failure(self, key: str, judgement: Judgement) -> None:
        """Add a line on a candidate that could not be judged; another run tries it again."""
        found = {"task": judgement.task, "candidate": judgement.candidate, "reason": judgement.failure}
        self._append({"not judged": {"key": key, **found}})

    def add_run(self, run: Mapping[str, Any]) -> None:
        """Add a line on a run itself."""
        self._append({"run": run})

    def _append(self, content: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps(content)
        with self.path.open("a+b") as file:
            # After a line that was cut off, a new one begins.
            file.seek(0, os.SEEK_END)
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []


def key_of(task: Task, candidate: Candidate, options: JudgeOptions) -> str:
    """Return a digest of what a judgement depends on: the task, the candidate's files, options, judge, and machine."""
    parts = [__version__, torch.__version__, _machine_name(device_of(options)), task.name, task.kind, _text_of(task)]
    parts += [f"{one.name}={getattr(options, one.name)!r}" for one in fields(options) if one.name != "examples"]
    digest = hashlib.sha256("\0".join(parts).encode())
    for name, content in sorted({**task.beside, **candidate.files}.items()):
        digest.update(f"\0{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


@cache
def _machine_name(device: str) -> str:
    """Return what a machine is called: asking a GPU's driver takes longer than reading a candidate."""
    return this_machine(device).name


def _text_of(task: Task) -> str:
    """Return what the task is made of: its files, with the recorded workloads of a definition, or the reference's source."""
    if task.path is None:
        with suppress(OSError, TypeError):
            return inspect.getsource(task.reference)
        return ""
    files = [task.path, *workload_files(task.path, task.name)]
    if task.path.is_dir():
        files = [*sorted(task.path.glob("*.py")), task.path / "task.yml"]
    return "\0".join(one.read_text(errors="replace") for one in files if one.is_file())
