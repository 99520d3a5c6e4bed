"""Plans the work of a check: which tasks run side by side, which ones fit into a limit of time, and how long each may take.

The properties of values come first in the table and take as long as all the others, most of which wait for a compiler.
So with two processors the two halves run side by side, and a GPU's tasks beside both where there are processors for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import inf

from opsmith.checker.properties.table import PROPERTIES, Property
from opsmith.checker.report import Column

__all__ = [
    "Allowance",
    "Queue",
    "Task",
    "affordable",
    "allowance",
    "default_processes",
    "essentials_first",
    "main_types",
    "rounds_of",
    "weight_of",
]

# What follows these in the table takes about as long as they do.
_FIRST_HALF = frozenset(item.name for item in PROPERTIES[: [item.name for item in PROPERTIES].index("aliasing") + 1])
# Most properties need less than their part by weight, so a task may take half as much again.
_AHEAD = 1.5
# The second half mostly repeats calls and waits for a compiler.
_SECONDS_OF_SECOND_HALF = 0.25
# On a GPU a loop in Python waits for launches, and all tasks are in one queue.
_SECONDS_OF_GPU = 1.5
# From so many processors on, so many queues at a time. A queue beside a GPU's leaves it a processor to launch from, and
# one that works on several threads needs another.
_PROCESSES = ((4, 3), (2, 2), (1, 1))
# A check with a limit tries these before anything else, so that even a short one says the most important.
_ESSENTIAL = ("value", "sizes", "gradient")
# The part of a limit that properties without a weight get where others have one.
_PART_OF_UNWEIGHTED = 0.5


@dataclass(frozen=True)
class Task:
    """A property in a column, with its element types by template parameter."""

    item: Property
    column: Column
    dtypes: Mapping[str, str]


@dataclass(frozen=True)
class Queue:
    """Tasks that are worked on in order. `seconds` is the time, in a check without a limit, of those with a weight."""

    tasks: tuple[Task, ...]
    seconds: float


@dataclass(frozen=True)
class Allowance:
    """The time of one task: `seconds` for the inputs beyond the first few, and the moment at which the check ends."""

    seconds: float
    until_s: float = inf


def main_types(tasks: Iterable[Task]) -> Mapping[str, str]:
    """Return the element types of a check that defects of any type are looked for in: float32, or else the first."""
    known = [task.dtypes for task in tasks if task.item.per == "dtype"]
    return next((dtypes for dtypes in known if "float32" in dtypes.values()), known[0] if known else {})


def default_processes(processors: int) -> int:
    """Return how many queues are worked on at a time."""
    return next(count for least, count in _PROCESSES if processors >= least)


def rounds_of(tasks: Sequence[Task], seconds: float, processes: int, *, is_limited: bool = False) -> list[list[Queue]]:
    """Return the rounds of a check, one after the other; the queues of a round are worked on side by side.

    The queues are the two halves of the CPU's tasks, which are one where there is one process, and a GPU's. What needs
    all cores for itself is a round of its own, the last, unless a limit shares out the time. In element types other than
    the main one it is a spot check, for which the cores need not wait, save in a thorough check.
    """
    main = main_types(tasks)
    alone = [task for task in tasks if _needs_all_cores(task) and (seconds == inf or task.dtypes == main)]
    last = [] if processes == 1 or is_limited else alone
    rounds = _shared_rounds([task for task in tasks if task not in last], seconds, processes)
    return [*rounds, [Queue(tuple(last), 0.0)]] if last else rounds


def _needs_all_cores(task: Task) -> bool:
    return task.item.all_cores and task.column.device == "cpu"


def _shared_rounds(tasks: Sequence[Task], seconds: float, processes: int) -> list[list[Queue]]:
    of_cpu = list(takewhile(lambda task: task.column.device == "cpu", tasks))
    first = list(takewhile(lambda task: task.item.name in _FIRST_HALF, of_cpu))
    end = len(first) if processes > 1 else len(of_cpu)
    queues = [
        Queue(tuple(of_cpu[:end]), seconds),
        Queue(tuple(of_cpu[end:]), _SECONDS_OF_SECOND_HALF * seconds),
        Queue(tuple(tasks[len(of_cpu) :]), _SECONDS_OF_GPU * seconds),
    ]
    queues = [queue for queue in queues if queue.tasks]
    return [queues[start : start + processes] for start in range(0, len(queues), processes)]


def essentials_first(tasks: Sequence[Task]) -> list[Task]:
    """Return tasks in the order of a check with a limit: the essential properties of each device before its others."""
    devices = list(dict.fromkeys(task.column.device for task in tasks))
    return sorted(tasks, key=lambda task: (devices.index(task.column.device), task.item.name not in _ESSENTIAL))


def affordable(tasks: Sequence[Task], limit_s: float) -> frozenset[int]:
    """Return the indices of the tasks that fit into a limit: of equal tasks and limits always the same.

    Those with a weight make do with what they get. Of the others, the cheapest run, as many as half of the limit pays for,
    or all of it where no task has a weight.
    """
    weighted = {index for index, task in enumerate(tasks) if task.item.weight}
    left_s = limit_s * (_PART_OF_UNWEIGHTED if weighted else 1.0)
    chosen = set(weighted)
    for index in sorted(set(range(len(tasks))) - weighted, key=lambda index: (tasks[index].item.cost_s, index)):
        left_s -= tasks[index].item.cost_s
        if left_s < 0:
            break
        chosen.add(index)
    return frozenset(chosen)


def allowance(left: Sequence[Task], seconds: float, until_s: float, now_s: float) -> Allowance:
    """Return the time of the first of the tasks that are left.

    `seconds` is the queue's for tasks with a weight. Where the check ends at `until_s`, that is what remains until then,
    less what the tasks without a weight cost.
    """
    task = left[0]
    if not task.item.weight:
        return Allowance(task.item.cost_s if until_s < inf else inf, until_s)
    if until_s < inf:
        seconds = until_s - now_s - sum(other.item.cost_s for other in left if not other.item.weight)
    share = task.item.weight / max(weight_of(left), 1e-9)
    return Allowance(max(0.0, seconds) * min(1.0, _AHEAD * share), until_s)


def weight_of(tasks: Sequence[Task]) -> float:
    """Return what the weights of tasks come to."""
    return sum(task.item.weight for task in tasks)
