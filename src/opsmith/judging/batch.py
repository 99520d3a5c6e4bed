"""Judges many candidates: those of a folder for one task, or those of a folder of tasks, with a log that goes on.

A line of the log is one judgement with a key of everything that it depends on. What was judged is not judged again; a run
that was killed goes on after its last whole line.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from opsmith._drawing import text_of
from opsmith._version import __version__
from opsmith.errors import ArgumentError
from opsmith.judging.candidate import Candidate, read_candidate
from opsmith.judging.options import JudgeOptions
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge, Judgement
from opsmith.judging.run import run_judge
from opsmith.judging.task import Task
from opsmith.judging.task_files import load_task, refused_task

__all__ = ["LOG_NAME", "BatchReport", "judge_batch"]

LOG_NAME = "opsmith-judge.jsonl"
Watch = Callable[[str, str], None]


@dataclass(frozen=True)
class BatchReport:
    """The judgements of many candidates, in the order of their names.

    `resumed` were in the log already; the others took `seconds` together, from the first to the last, all included.
    """

    judgements: tuple[Judgement, ...]
    resumed: int = 0
    seconds: float = 0.0

    @property
    def judged(self) -> int:
        """How many were judged in this run."""
        return len(self.judgements) - self.resumed

    @property
    def per_hour(self) -> float | None:
        """How many would be judged in an hour at this pace, one at a time; None where none was."""
        return 3600 * self.judged / self.seconds if self.judged and self.seconds > 0 else None

    @property
    def ok(self) -> bool:
        """Whether every candidate is accepted."""
        return all(one.ok for one in self.judgements)

    @property
    def totals(self) -> str:
        """What the judgements come to in one line."""
        accepted = sum(one.ok for one in self.judgements)
        operators = sum(one.ok and one.as_operator.state == "accepted" for one in self.judgements)
        words = [f"{accepted} of {len(self.judgements)} accepted as posed, {operators} as an operator"]
        if self.per_hour is not None:
            words.append(f"{self.judged} judged in {self.seconds:.0f} s, which is {self.per_hour:,.0f} an hour")
        words += [f"{self.resumed} from the log"] if self.resumed else []
        return " · ".join(words)

    def __str__(self) -> str:
        return text_of(self)


def judge_batch(
    task: Any,
    folder: str | Path,
    options: JudgeOptions | None = None,
    *,
    log: str | Path | None = None,
    watch: Watch | None = None,
) -> BatchReport:
    """Judge every candidate of a folder: its .py files, and its folders with a main.py.

    Where `task` is a folder of tasks, the candidates of a task are the file or the folder of its name. `log` is a file of
    JSON lines, by default opsmith-judge.jsonl in the folder; its last line has how many were judged in an hour. `watch`
    gets a candidate and what is done with it. Raises ArgumentError where there is nothing to judge.
    """
    options, folder, begun_s = options or JudgeOptions(), Path(folder), time.monotonic()
    known = _Log(Path(log) if log is not None else folder / LOG_NAME)
    found: list[Judgement] = []
    resumed = 0
    for one, path in _pairs(task, folder, options):
        candidate = read_candidate(path)
        key = _key(one, candidate, options)
        judgement = known.find(key)
        if judgement is None:
            tell = partial(watch, candidate.name) if watch is not None else None
            judgement = run_judge(one, candidate, options, tell)
            known.add(key, judgement)
        else:
            resumed += 1
        found.append(judgement)
    report = BatchReport(tuple(found), resumed, time.monotonic() - begun_s)
    if report.judged:
        known.close_run(report)
    return report


class _Log:
    """Judgements by key, in a file of lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, Judgement] = {}
        for line in _lines(path):
            try:
                content = json.loads(line)
                self._known[content["key"]] = Judgement.from_json(json.dumps(content["judgement"]))
            except (ValueError, KeyError, TypeError):
                continue  # a line on a run; one that was cut off, or of an older format: judged again

    def find(self, key: str) -> Judgement | None:
        """Return the judgement of a key, or None."""
        return self._known.get(key)

    def add(self, key: str, judgement: Judgement) -> None:
        """Add a judgement; the line is on the disk when this returns."""
        self._append({"key": key, "judgement": json.loads(judgement.to_json())})

    def close_run(self, report: BatchReport) -> None:
        """Add a line on the run itself: how many were judged, in what time, and where."""
        last = report.judgements[-1]
        pace = {"judged": report.judged, "resumed": report.resumed, "seconds": report.seconds}
        self._append({"run": {**pace, "per_hour": report.per_hour, "device": last.device, "machine": last.machine}})

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


def _pairs(task: Any, folder: Path, options: JudgeOptions) -> Iterator[tuple[Task, Path]]:
    if not folder.is_dir():
        raise ArgumentError(f"{folder} is not a folder of candidates")
    tasks = _tasks_in(task)
    if tasks is None:
        one = load_task(task, examples=options.examples, seconds=options.load_seconds)
        paths = _candidates_in(folder)
        if not paths:
            raise ArgumentError(f"{folder} has no candidates: .py files, or folders with a main.py")
        yield from ((one, path) for path in paths)
        return
    any_found = False
    for path in tasks:
        mine = [one for one in (folder / f"{path.stem}.py",) if one.is_file()] + _candidates_in(folder / path.stem)
        if mine:
            one = _read_or_refused(path, options)
            yield from ((one, candidate) for candidate in mine)
            any_found = True
    if not any_found:
        names = ", ".join(path.stem for path in tasks[:5])
        raise ArgumentError(
            f"{folder} has no candidates for the tasks of {task}: a file or a folder for each of {names}"
        )


def _read_or_refused(path: Path, options: JudgeOptions) -> Task:
    """Return one of many tasks; one that cannot be read is refused, and the others are judged."""
    try:
        return load_task(path, seconds=options.load_seconds)
    except ArgumentError as error:
        return refused_task(path, Charge(Refusal.DEGENERATE_TASK, f"it cannot be read: {error}"))


def _tasks_in(task: Any) -> list[Path] | None:
    """Return the tasks of a folder of tasks, or None for one task."""
    if not isinstance(task, str | Path) or not Path(task).is_dir():
        return None
    folder = Path(task)
    if (folder / "reference.py").is_file() or (folder / "__init__.py").is_file():
        return None  # one of gpu-mode's, or a package of operators
    found = [
        one for one in sorted(folder.iterdir()) if one.suffix in (".py", ".json") or (one / "reference.py").is_file()
    ]
    return [one for one in found if not one.name.startswith(("_", "."))]


def _candidates_in(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    found = [one for one in sorted(folder.iterdir()) if one.suffix == ".py" or (one / "main.py").is_file()]
    return [one for one in found if not one.name.startswith(("_", "."))]


def _key(task: Task, candidate: Candidate, options: JudgeOptions) -> str:
    """Return a digest of what a judgement depends on: the task, the candidate's files, the options, the judge."""
    parts = [__version__, task.name, task.kind, _text_of(task)]
    parts += [f"{one.name}={getattr(options, one.name)!r}" for one in fields(options) if one.name != "examples"]
    digest = hashlib.sha256("\0".join(parts).encode())
    for name, content in sorted(candidate.text.items()):
        digest.update(f"\0{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _text_of(task: Task) -> str:
    if task.path is None:
        return ""
    files = sorted(task.path.glob("*.py")) if task.path.is_dir() else [task.path]
    return "\0".join(one.read_text(errors="replace") for one in files if one.is_file())
