"""Judges many candidates: those of a folder for one task, or those of a folder of tasks, with a log that goes on.

A line of the log is one judgement with a key of everything that it depends on. What was judged is not judged again; a run
that was killed goes on after its last whole line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from opsmith._drawing import text_of
from opsmith.errors import ArgumentError
from opsmith.judging.batch_log import BatchLog, key_of
from opsmith.judging.candidate import read_candidate
from opsmith.judging.candidate_process import CandidateProcess
from opsmith.judging.failures import failed_judgement, unread_judgement
from opsmith.judging.hooks import Hooks
from opsmith.judging.options import JudgeOptions
from opsmith.judging.preparing import start_ahead
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge, Judgement
from opsmith.judging.run import run_judge
from opsmith.judging.task import Task
from opsmith.judging.task_files import load_task, refused_task

__all__ = ["LOG_NAME", "BatchReport", "judge_batch"]

LOG_NAME = "opsmith-judge.jsonl"
# In the place of a charge that the log has.
_NOT_READ = Charge(Refusal.SLOW_REFERENCE, "it was not read")
_Watch = Callable[[str, str], None]


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
    watch: _Watch | None = None,
    go_on: Callable[[], NoReturn] | None = None,
) -> BatchReport:
    """Judge every candidate of a folder: its .py files, and its folders with a main.py.

    Where `task` is a folder of tasks, the candidates of a task are the file or the folder of its name. `log` is a file of
    JSON lines, by default opsmith-judge.jsonl in the folder; its last line has how many were judged in an hour. `watch`
    gets a candidate and what is done with it. Where a call of a task does not come back, `go_on` is called, in another
    thread, when the judgement is in the log: it replaces this process by one that goes on from there. Raises ArgumentError
    where there is nothing to judge.
    """
    folder = Path(folder)
    return _Batch(options or JudgeOptions(), BatchLog(Path(log or folder / LOG_NAME)), watch, go_on).run(task, folder)


class _Batch:
    """Judges one candidate after the other, and keeps what is known in the log."""

    def __init__(
        self, options: JudgeOptions, log: BatchLog, watch: _Watch | None, go_on: Callable[[], NoReturn] | None
    ) -> None:
        self.options, self.log, self.go_on = options, log, go_on
        self.watch: _Watch = watch or (lambda name, doing: None)
        self.ahead: CandidateProcess | None = None  # of the next candidate, which has started

    def run(self, task: Any, folder: Path) -> BatchReport:
        """Return the judgements of all candidates."""
        begun_s, resumed = time.monotonic(), 0
        found: list[Judgement] = []
        try:
            for one, path, following in self._candidates(task, folder):
                known = self._known(one, path)
                resumed += known is not None
                found.append(known or self._judge(one, path, following))
        finally:
            self._drop_ahead()
        report = BatchReport(tuple(found), resumed, time.monotonic() - begun_s)
        if report.judged:
            pace = {"judged": report.judged, "resumed": resumed, "seconds": report.seconds, "per_hour": report.per_hour}
            self.log.add_run({**pace, "device": found[-1].device, "machine": found[-1].machine})
        return report

    def _known(self, task: Task, path: Path) -> Judgement | None:
        with suppress(ArgumentError, OSError):  # what is not read is told when it is judged
            return self.log.find(key_of(task, read_candidate(path), self.options))
        return None

    def _judge(self, task: Task, path: Path, following: Sequence[Path] = ()) -> Judgement:
        """Judge a candidate; the process of the next one starts when this one is not timed any more."""
        try:
            candidate = read_candidate(path)
        except (ArgumentError, OSError) as error:
            judgement = unread_judgement(task, path, self.options, error)
            self.log.add(f"not read: {path.name}", judgement)
            return judgement
        key = key_of(task, candidate, self.options)
        tell = partial(self.watch, candidate.name)

        def give_up(judgement: Judgement) -> None:
            assert self.go_on is not None
            self.log.add(key, judgement)
            self._drop_ahead()
            self.go_on()

        hooks = Hooks(tell, partial(self._start_ahead, task, following), give_up if self.go_on is not None else None)
        process, self.ahead = self.ahead, None
        try:
            judgement = run_judge(task, candidate, self.options, hooks, process)
        except ArgumentError:
            raise  # of the options, which are those of all
        except Exception as error:
            judgement = failed_judgement(task, candidate, self.options, error)
            self.log.add_failure(key, judgement)
        else:
            self.log.add(key, judgement)
        return judgement

    def _start_ahead(self, task: Task, following: Sequence[Path]) -> None:
        """Start a process for the next candidate that the log does not know; what fails does so in its turn."""
        with suppress(ArgumentError, OSError):
            if any(self._known(task, one) is None for one in following):
                self.ahead = start_ahead(self.options)

    def _drop_ahead(self) -> None:
        if self.ahead is not None:
            self.ahead.close()
            self.ahead = None

    def _candidates(self, task: Any, folder: Path) -> Iterator[tuple[Task, Path, Sequence[Path]]]:
        """Yield each candidate with its task, which is read once, and those of the same task behind it."""
        for one, paths in self._groups(task, folder):
            yield from ((one, path, paths[index + 1 :]) for index, path in enumerate(paths))

    def _groups(self, task: Any, folder: Path) -> Iterator[tuple[Task, Sequence[Path]]]:
        if not folder.is_dir():
            raise ArgumentError(f"{folder} is not a folder of candidates")
        tasks = _tasks_in(task)
        if tasks is None:
            paths = _candidates_in(folder)
            if not paths:
                raise ArgumentError(f"{folder} has no candidates: .py files, or folders with a main.py")
            yield self._read(task, paths), paths
            return
        any_found = False
        for path in tasks:
            mine = [one for one in (folder / f"{path.stem}.py",) if one.is_file()] + _candidates_in(folder / path.stem)
            if mine:
                try:
                    one = self._read(path, mine)
                except ArgumentError as error:  # the others are judged
                    one = refused_task(path, Charge(Refusal.DEGENERATE_TASK, f"it cannot be read: {error}"))
                yield one, mine
                any_found = True
        if not any_found:
            names = ", ".join(path.stem for path in tasks[:5])
            raise ArgumentError(
                f"{folder} has no candidates for the tasks of {task}: a file or a folder for each of {names}"
            )

    def _read(self, task: Any, candidates: Sequence[Path]) -> Task:
        """Return a task; what the log says of all its candidates is that it cannot be read is not tried again."""
        refused = refused_task(task, _NOT_READ)
        if all(self._known(refused, path) for path in candidates):
            return refused

        def give_up(one: Task) -> None:
            for path in candidates:
                self._judge(one, path)
            assert self.go_on is not None
            self.go_on()

        seconds, go_on = self.options.load_seconds, self.go_on
        return load_task(
            task, examples=self.options.examples, seconds=seconds, give_up=give_up if go_on is not None else None
        )


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
