"""How does the work of a check get done? In child processes, one task after the other, in up to three lanes.

What is asked of values comes first and takes as long as all the rest, most of which waits for a compiler: with two
processors a check on the CPU is over in half the time. A GPU's lane runs beside both where there are processors for it.
A task is a property in a column; what became of it is for `run` to judge.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import Any

from opsmith.checker.outcome import Outcome, not_run
from opsmith.checker.process.child import Child, Ended, Send, in_child
from opsmith.checker.process.clock import now_s, wake
from opsmith.checker.properties.table import Property
from opsmith.checker.report import Column
from opsmith.toolchain.resources import cpu_count

__all__ = ["Done", "Lane", "Task", "in_lanes"]

# The last of the first lane: what follows in the table of properties takes about as long as what comes before.
_LAST_OF_FIRST = "determinism"
# Of the time that is left a task may take half as much again as its part by weight: most of the others need less.
_AHEAD = 1.5
# In the second lane there is a compiler to wait for.
_SECONDS_BESIDE = 0.5
# On a GPU a loop in Python waits for launches, and its tasks are in one lane.
_SECONDS_ELSEWHERE = 1.5
# How many lanes run at a time, from so many processors on. A lane beside a GPU's is to leave it a processor to launch
# from, and one that works on several threads another.
_AT_ONCE = ((4, 3), (2, 2), (1, 1))


@dataclass(frozen=True)
class Task:
    """A property in a column, with its element types by template parameter."""

    item: Property
    column: Column
    dtypes: Mapping[str, str]


# Tasks, and how many seconds there are for those that have a weight.
_Part = tuple[Sequence[Task], float]


@dataclass(frozen=True)
class Done:
    """What became of a task: an outcome, or how its process ended before there was one, and what it was doing then."""

    task: Task
    outcome: Outcome | None
    ended: Ended | None = None
    doing: Any = None


@dataclass(frozen=True)
class Lane:
    """How tasks are worked on: `run` gets a task, whom to tell what is tried, and how many seconds there are for it.

    `tell` is told in this process; `silence_s` is how long a task may tell nothing. `seconds` is the time (see `clock`), on
    the CPU, of all tasks that have a weight; what one does not use is left to those after it.
    """

    run: Callable[[Task, Callable[[Any], None], float], Outcome]
    tell: Callable[[Task, Any], None]
    silence_s: float
    seconds: float


def in_lanes(lane: Lane, tasks: Sequence[Task]) -> Iterator[Done]:
    """Yield what became of each task, in order; what the processors suffice for is worked on at the same time."""
    at_once = next(count for processors, count in _AT_ONCE if cpu_count() >= processors)
    parts = _parts(lane, tasks, is_split=at_once > 1)
    for start in range(0, len(parts), at_once):
        yield from _side_by_side(lane, parts[start : start + at_once])


def _parts(lane: Lane, tasks: Sequence[Task], *, is_split: bool) -> list[_Part]:
    """Return the parts that do not wait for each other: the CPU's, the first and the later ones apart, and a GPU's."""
    of_cpu = list(takewhile(lambda task: task.column.device == "cpu", tasks))
    ends = (index + 1 for index, task in enumerate(of_cpu) if is_split and task.item.name == _LAST_OF_FIRST)
    end = max(ends, default=len(of_cpu))
    parts = [
        (of_cpu[:end], lane.seconds),
        (of_cpu[end:], _SECONDS_BESIDE * lane.seconds),
        (tasks[len(of_cpu) :], _SECONDS_ELSEWHERE * lane.seconds),
    ]
    return [part for part in parts if part[0]]


def _side_by_side(lane: Lane, parts: Sequence[_Part]) -> Iterator[Done]:
    """Work on the first part here, and on each of the others in a child meanwhile."""
    (tasks, seconds), *others = parts
    unseen = replace(lane, tell=_tell_nobody)
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(Child(partial(_send_all, unseen, *other))) for other in others]
        yield from _one_by_one(lane, tasks, seconds)
        for child, (beside, _) in zip(children, others, strict=True):
            done = 0
            for message in child.messages(None):
                if not isinstance(message, Ended):
                    outcome, ended, doing = message
                    yield Done(beside[done], outcome, ended, doing)
                    done += 1
            # What a lane leaves undone (somebody has killed it) is done here.
            yield from _one_by_one(lane, beside[done:], 0.0)


def _send_all(lane: Lane, tasks: Sequence[Task], seconds: float, send: Send) -> None:
    for done in _one_by_one(lane, tasks, seconds):
        send((done.outcome, done.ended, done.doing))


def _tell_nobody(task: Task, doing: Any) -> None:
    """Say nothing: who watches a check sees one lane."""


def _weight(tasks: Sequence[Task]) -> float:
    return sum(task.item.weight for task in tasks)


def _one_by_one(lane: Lane, tasks: Sequence[Task], seconds: float) -> Iterator[Done]:
    _import_for(tasks)
    left = list(tasks)
    while left:
        done, doing = 0, None
        ended: Ended | None = None
        batch = _batch(left)
        lane.tell(left[0], None)
        for message in in_child(_worker(lane, batch, left, seconds), silence_s=lane.silence_s):
            if isinstance(message, Ended):
                ended = message
            elif isinstance(message, _Finished):
                seconds -= message.seconds
                yield Done(left[done], message.outcome)
                done, doing = done + 1, None
                if done < len(left):
                    lane.tell(left[done], None)
            else:
                doing = message
                lane.tell(left[done], doing)
        assert ended is not None
        if done < len(batch):
            task = left[done]
            yield Done(task, None, ended, doing)
            done += 1
            # The next column would be silent for as long again, and say the same.
            while ended.hung and done < len(left) and _is_same_row(task, left[done]):
                yield Done(left[done], not_run(f"it hangs in {task.column.dtype} already"))
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


@dataclass(frozen=True)
class _Finished:
    """A task's outcome, and how long it took (see `clock`)."""

    outcome: Outcome
    seconds: float


def _worker(lane: Lane, batch: Sequence[Task], left: Sequence[Task], seconds: float) -> Callable[[Send], None]:
    def work(send: Send) -> None:
        remaining = seconds
        # One that is alone may start processes itself, which could not use a GPU that this one has used.
        if _weight(batch):
            wake(batch[0].column.device)
        for index, task in enumerate(batch):
            share = task.item.weight / max(_weight(left[index:]), 1e-9)
            device = task.column.device
            started = now_s(device)
            outcome = lane.run(task, partial(_send_doing, send), max(0.0, remaining) * min(1.0, _AHEAD * share))
            taken = now_s(device) - started if task.item.weight else 0.0
            remaining -= taken
            _send_outcome(send, outcome, taken)

    return work


def _send_doing(send: Send, doing: Any) -> None:
    try:
        send(doing)
    except Exception:
        # It has an argument that cannot be pickled: what it is called must do.
        send(getattr(doing, "label", "") or repr(doing)[:200])


def _send_outcome(send: Send, outcome: Outcome, seconds: float) -> None:
    try:
        send(_Finished(outcome, seconds))
    except Exception:
        bare = replace(outcome, findings=tuple(replace(finding, case=None) for finding in outcome.findings))
        send(_Finished(bare, seconds))
