"""Works on the tasks of a check in forked child processes, several queues side by side.

A child works on one task after the other. When it dies or hangs, the task it was at has no outcome, and a new child goes
on with the next one; what that means for the operator is for `run` to judge.
"""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any

from opsmith.checker.outcome import Expecting, Found, Outcome, not_run, out_of_time
from opsmith.checker.process.child import Child, Ended, Send, in_child
from opsmith.checker.process.clock import now_s, wake
from opsmith.checker.process.lost_gpu import leave_where_lost
from opsmith.checker.process.schedule import (
    Allowance,
    Queue,
    Task,
    affordable,
    allowance,
    default_processes,
    rounds_of,
    weight_of,
)
from opsmith.subject.case import Case
from opsmith.toolchain.resources import cpu_count

__all__ = ["Finished", "Workers", "run_tasks"]

# An operator that hangs does so for several properties; after the first one, so much of the silence is proof enough.
_PART_OF_SILENCE = 0.25


@dataclass(frozen=True)
class Finished:
    """The end of a task: its outcome, or how its process ended before there was one, and what it was doing then.

    `history` are the calls that its process had reported by then, in order, where something failed. `expecting` is the case
    that the reference, and not the kernel, was at work on.
    """

    task: Task
    outcome: Outcome | None
    ended: Ended | None = None
    doing: Any = None
    history: tuple[Case, ...] = ()
    expecting: Case | None = None


@dataclass(frozen=True)
class Workers:
    """How tasks are worked on: `run` gets a task, a function to report what is being tried to, and the task's time.

    `tell` gets those reports, in this process. A task that reports nothing for `silence_s` hangs. `seconds` is the time
    (see `clock`), on the CPU, of all tasks that have a weight; what one does not use is left to those after it.
    `limit_s` is the time of all tasks together, by the clock: those without a weight that cost too much are left out, and
    what is still running at the end is stopped. `processes` work side by side, by default as many as the processors allow.
    """

    run: Callable[[Task, Callable[[Any], None], Allowance], Outcome]
    tell: Callable[[Task, Any], None]
    silence_s: float
    seconds: float
    limit_s: float = inf
    until_s: float = inf
    processes: int | None = None


def run_tasks(workers: Workers, tasks: Sequence[Task]) -> Generator[Finished]:
    """Yield the end of each task, in order; tasks of different queues are worked on at the same time."""
    processes = workers.processes or default_processes(cpu_count())
    rounds = rounds_of(tasks, workers.seconds, processes, is_limited=workers.limit_s < inf)
    for number, queues in enumerate(rounds):
        now = time.monotonic()
        until_s = now + (workers.until_s - now) / (len(rounds) - number)
        yield from _side_by_side(replace(workers, limit_s=workers.limit_s / len(rounds), until_s=until_s), queues)


def _side_by_side(workers: Workers, queues: Sequence[Queue]) -> Iterator[Finished]:
    """Work on the first queue here, and on each of the others in a child meanwhile."""
    first, *others = queues
    unseen = replace(workers, tell=_tell_nobody)
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(Child(partial(_send_all, unseen, other))) for other in others]
        yield from _in_order(workers, first)
        for child, queue in zip(children, others, strict=True):
            done = 0
            for message in child.messages(None):
                if not isinstance(message, Ended):
                    yield Finished(queue.tasks[done], *message)
                    done += 1
            # A child that was killed from outside leaves tasks undone: they are done here.
            yield from _in_order(workers, Queue(queue.tasks[done:], 0.0))


def _send_all(workers: Workers, queue: Queue, send: Send) -> None:
    for one in _in_order(workers, queue):
        send((one.outcome, one.ended, one.doing, one.history, one.expecting))


def _tell_nobody(task: Task, doing: Any) -> None:
    """Report nothing: a watcher sees the first queue alone."""


def _in_order(workers: Workers, queue: Queue) -> Iterator[Finished]:
    """Yield the ends of a queue's tasks, those among them that the limit has no time for."""
    kept = affordable(queue.tasks, workers.limit_s)
    ends = _one_by_one(workers, [task for index, task in enumerate(queue.tasks) if index in kept], queue.seconds)
    for index, task in enumerate(queue.tasks):
        yield next(ends) if index in kept else Finished(task, out_of_time())


def _one_by_one(workers: Workers, tasks: Sequence[Task], seconds: float) -> Iterator[Finished]:
    _import_for(tasks)
    left = list(tasks)
    tried: Task | None = None
    has_hung = False
    while left:
        if time.monotonic() >= workers.until_s:
            yield from (Finished(task, out_of_time()) for task in left)
            return
        done, doing = 0, _Doing()
        ended: Ended | None = None
        batch = _batch(left)
        workers.tell(left[0], None)
        work = _worker(workers, batch, left, seconds)
        silence_s = workers.silence_s * (_PART_OF_SILENCE if has_hung else 1.0)
        for message in in_child(work, silence_s=silence_s, until_s=workers.until_s):
            if isinstance(message, Ended):
                ended = message
            elif isinstance(message, _Report):
                seconds -= message.seconds
                failed = message.outcome.state == "failed"
                yield Finished(left[done], message.outcome, history=tuple(doing.history) if failed else ())
                done, doing = done + 1, _Doing(history=doing.history)
                if done < len(left):
                    workers.tell(left[done], None)
            else:
                doing.note(message)
                workers.tell(left[done], message)
        assert ended is not None
        if done < len(batch) and not ended.is_late:
            task = left[done]
            # Other programs may keep a GPU for long: what seems to hang there is tried once more.
            is_hang = ended.hung and doing.found is None
            if is_hang and task.column.device != "cpu" and task is not tried:
                tried, left = task, left[done:]
                continue
            has_hung |= ended.hung and task.column.device == "cpu"
            yield doing.finished(task, ended)
            done += 1
            # The next column would be silent for as long again, with the same finding.
            while is_hang and done < len(left) and _is_same_row(task, left[done]):
                yield Finished(left[done], not_run(f"it already hangs in {task.column.dtype}"))
                done += 1
        left = left[done:]


def _import_for(tasks: Sequence[Task]) -> None:
    """Import what takes seconds here, once, and not in each child."""
    for name in dict.fromkeys(name for task in tasks for name in task.item.imports):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _is_same_row(one: Task, other: Task) -> bool:
    return (one.item.name, one.column.device) == (other.item.name, other.column.device)


def _batch(left: Sequence[Task]) -> Sequence[Task]:
    """Return the tasks for one child: some have one to themselves."""
    alone = [
        index
        for index, task in enumerate(left)
        if (task.item.fresh if task.column.device == "cpu" else task.item.alone)
    ]
    return left if not alone else left[: alone[0] or 1]


@dataclass
class _Doing:
    """What a child has sent of the task that it is at: the last case or text, whether the reference is asked about one.

    And the task's outcome, if it has found that before it ends. The cases are those of earlier tasks as well.
    """

    last: Any = None
    expecting: Case | None = None
    found: Outcome | None = None
    history: list[Case] = field(default_factory=list)

    def note(self, message: Any) -> None:
        """Take what a task has sent."""
        if isinstance(message, Found):
            self.found = message.outcome
        elif isinstance(message, Expecting):
            self.expecting = message.case
        else:
            self.last, self.expecting = message, None
            if isinstance(message, Case):
                self.history.append(message)

    def finished(self, task: Task, ended: Ended) -> Finished:
        """Return how a task ended with its child."""
        # What ended the process while an input was made smaller is not what the input had shown.
        how = None if self.found is not None else ended
        return Finished(task, self.found, how, self.last, tuple(self.history), self.expecting)


@dataclass(frozen=True)
class _Report:
    """What a child sends of a task: its outcome, and how long it took (see `clock`)."""

    outcome: Outcome
    seconds: float


def _worker(workers: Workers, batch: Sequence[Task], left: Sequence[Task], seconds: float) -> Callable[[Send], None]:
    def work(send: Send) -> None:
        remaining = seconds
        # A task that is alone may start processes itself, which could not use a GPU that this one has used.
        if weight_of(batch):
            wake(batch[0].column.device)
        for index, task in enumerate(batch):
            time_of_task = allowance(left[index:], remaining, workers.until_s, time.monotonic())
            started = now_s(task.column.device)
            outcome = workers.run(task, partial(_send_doing, send), time_of_task)
            leave_where_lost(task.column.device)
            taken = now_s(task.column.device) - started if task.item.weight else 0.0
            remaining -= taken
            _send_outcome(send, outcome, taken)

    return work


def _send_doing(send: Send, doing: Any) -> None:
    try:
        send(doing)
    except Exception:
        # It has an argument that cannot be pickled, so its name has to do.
        send(getattr(doing, "label", "") or repr(doing)[:200])


def _send_outcome(send: Send, outcome: Outcome, seconds: float) -> None:
    try:
        send(_Report(outcome, seconds))
    except Exception:
        bare = replace(outcome, findings=tuple(replace(finding, case=None) for finding in outcome.findings))
        send(_Report(bare, seconds))
