"""Checks all properties of an operator, in child processes, so that a crash is a finding (see `workers`)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

from opsmith.checker.blame import BEFORE_SIZES
from opsmith.checker.excused import excused_notes
from opsmith.checker.left_out import left_out_notes
from opsmith.checker.outcome import Expecting, Found, Outcome, not_run, not_run_for, out_of_time
from opsmith.checker.process.crash import crashed, crashed_in_the_reference, see_earlier
from opsmith.checker.process.forks import Forks
from opsmith.checker.process.index_probe import with_bounds_of_a_child
from opsmith.checker.process.schedule import Allowance, Task, affordable, allowance, essentials_first, main_types
from opsmith.checker.process.slow_sizes import without_slow_sizes
from opsmith.checker.process.workers import Finished, Workers, run_tasks
from opsmith.checker.programs import with_programs
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.table import PROPERTIES, Property
from opsmith.checker.report import Column, Report, Result
from opsmith.checker.tasks import tasks_of
from opsmith.checker.verdict import Judged, Verdict
from opsmith.errors import ArgumentError
from opsmith.subject.index_bounds import with_index_bounds
from opsmith.subject.subject import Subject

__all__ = ["CheckPlan", "Watcher", "run_check"]


# What those properties may take on the CPU, all together, that try as many inputs as there is time for. With what the
# others take, a check is over in a quarter of a minute. Where the reference works on whole tensors that is enough for all.
_SECONDS = 10.0


@dataclass(frozen=True)
class Watcher:
    """Functions that follow a check: its results, and what it tries before there is one.

    `on_doing` gets the property's name, the column, and the case that the operator is called with (or a text, or None
    if the property has just begun).
    """

    on_result: Callable[[Result], None] | None = None
    on_doing: Callable[[str, Column, Any], None] | None = None

    def tell_result(self, result: Result) -> None:
        """Report a result."""
        if self.on_result is not None:
            self.on_result(result)

    def tell_doing(self, task: Task, doing: Any) -> None:
        """Report what is tried."""
        if self.on_doing is not None and not isinstance(doing, (Expecting, Found)):
            self.on_doing(task.item.name, task.column, doing)


@dataclass(frozen=True)
class CheckPlan:
    """What `run_check` does: `CheckOptions` with the properties looked up, and how its processes run.

    `dtypes` are names, all by default. `thorough` tries all inputs, however long that takes. `large` includes calls with
    more than 2^31 elements. `isolate` says whether a child process does the work; without one a crash ends the check.
    `silence_s` is how long a call may take before it counts as hanging.

    `seconds` limits the whole check, by the clock. Properties that try many inputs share the time; of the others, those
    that cost more than is left are left out, always the same ones for the same limit, and the report says so. What is
    still running at the end is stopped. Loading and building the operator come before, and do not count.

    `rerun` runs the program of each finding again in a new process, before the report has it.

    `processes` is how many parts of the check run side by side: by default one to three, as the processors allow.
    """

    properties: tuple[Property, ...] = PROPERTIES
    dtypes: tuple[str, ...] = ()
    thorough: bool = False
    large: bool = False
    isolate: bool = True
    silence_s: float = 60.0
    seconds: float | None = None
    processes: int | None = None
    rerun: bool = True

    @property
    def limit_s(self) -> float:
        """The limit of the whole check, infinite where there is none."""
        return inf if self.seconds is None else self.seconds


def run_check(subject: Subject, plan: CheckPlan | None = None, watch: Watcher | None = None) -> Report:
    """Check an operator and return what was found; `watch` gets each result as it comes.

    It gets a result once more where another one explains it, which is known when all are there.

    Raises ArgumentError if the operator has none of the element types that `plan` names, and for a limit of time
    beside `thorough`.
    """
    plan = plan or CheckPlan()
    watch = watch or Watcher()
    if plan.thorough and plan.seconds is not None:
        raise ArgumentError(
            "thorough and seconds exclude each other: a thorough check tries all inputs, as long as that takes"
        )
    started = time.perf_counter()
    limit_s = plan.limit_s
    until_s = time.monotonic() + limit_s
    # Where the reference crashes at an index, it does so in a child again, which is a finding.
    subject = (with_bounds_of_a_child(subject, until_s) if plan.isolate else with_index_bounds(subject)) or subject
    if not plan.thorough:
        subject = without_slow_sizes(subject)
    for dtypes in subject.dtypes:
        subject.suite.plain(dtypes)  # the cases are made here, once, and not in each process
    tasks = tasks_of(subject, plan.properties, plan.dtypes)
    order = {(task.item.name, task.column): index for index, task in enumerate(tasks)}
    rows: list[Judged] = []
    told: dict[tuple[str, Column], Outcome] = {}
    forks = Forks.of_this_process(plan.properties) if plan.isolate else None
    tasks = tasks if limit_s == inf else essentials_first(tasks)
    for row in _rows(subject, plan, tasks, forks, watch, until_s):
        rows.append(row)
        told[row.task.item.name, row.task.column] = row.outcome
        watch.tell_result(Result(row.task.item.name, row.task.column, row.outcome))
    rows.sort(key=lambda row: order[row.task.item.name, row.task.column])
    Verdict(subject, rows, forks, plan.silence_s, until_s).reach()
    is_run = plan.rerun and plan.isolate
    results = with_programs(subject, rows, is_run=is_run, silence_s=plan.silence_s, until_s=until_s)
    for result in results:
        if told[result.name, result.column].state != result.outcome.state:
            watch.tell_result(result)
    own = [*subject.notes, *([forks.note] if forks is not None and forks.note else [])]
    notes = (*own, *excused_notes(results), *left_out_notes(results, is_limited=limit_s < inf))
    return Report(subject.name, tuple(results), subject.seed, time.perf_counter() - started, notes)


def _rows(
    subject: Subject, plan: CheckPlan, tasks: list[Task], forks: Forks | None, watch: Watcher, until_s: float
) -> Iterable[Judged]:
    limit_s = plan.limit_s
    here = [task for task in tasks if forks is None or not forks.can_run(task)]
    elsewhere = [task for task in tasks if task not in here]
    # Each part has as much of the limit as it has of the tasks.
    part_s = limit_s * len(elsewhere) / max(len(tasks), 1) if here else limit_s
    run = partial(_run, subject, plan, main_types(tasks))
    workers = Workers(
        run,
        watch.tell_doing,
        plan.silence_s,
        inf if plan.thorough else _SECONDS,
        part_s,
        until_s - (limit_s - part_s if here and limit_s < inf else 0.0),
        plan.processes,
    )
    yield from _ended(subject, elsewhere, run_tasks(workers, elsewhere), workers.until_s)
    kept = affordable(here, limit_s - part_s if limit_s < inf else inf)
    for index, task in enumerate(here):
        watch.tell_doing(task, None)
        time_of_task = allowance(here[index:], inf, until_s, time.monotonic())
        has_time = index in kept and time.monotonic() < until_s
        tell = partial(watch.tell_doing, task)
        outcome = run(task, tell, time_of_task) if has_time else out_of_time()
        yield Judged(task, outcome)


def _ended(subject: Subject, tasks: Sequence[Task], done: Generator[Finished], until_s: float) -> Iterable[Judged]:
    """Yield each task with its outcome, which is a crash where its process had none."""
    died: list[Task] = []
    left = list(tasks)
    for one in done:
        task, outcome, has_crashed, hangs_without_kernel = one.task, one.outcome, False, False
        left.remove(task)
        if outcome is None:
            assert one.ended is not None
            context = Context(subject, task.column.device, task.dtypes, until_s=until_s)
            if one.expecting is not None:
                outcome = crashed_in_the_reference(context, one.ended, one.expecting)
                hangs_without_kernel = one.ended.hung
            if outcome is None:
                doing = one.expecting if one.doing is None else one.doing
                earlier = [other.item.name for other in died if _is_elsewhere(other, task)]
                outcome = see_earlier(context, doing, earlier) or crashed(context, one.ended, doing)
            has_crashed = not one.ended.hung
            if outcome.state == "failed":
                died.append(task)
        yield Judged(task, outcome, has_crashed, one.history)
        if hangs_without_kernel:  # each of the others would wait for it as long
            done.close()
            why = not_run(f"the reference hangs: see {task.item.name}")
            yield from (Judged(task, why) for task in left)
            return


def _is_elsewhere(one: Task, other: Task) -> bool:
    """Whether tasks are of different properties on one device, and the second is not what the first is charged to."""
    is_charged = other.item.name == "sizes" and one.item.name in BEFORE_SIZES
    return one.column.device == other.column.device and one.item.name != other.item.name and not is_charged


def _run(
    subject: Subject,
    plan: CheckPlan,
    main: Mapping[str, str],
    task: Task,
    tell: Callable[[Any], None],
    time_of_task: Allowance,
) -> Outcome:
    context = Context(
        subject,
        task.column.device,
        task.dtypes,
        tell,
        plan.thorough,
        plan.large,
        time_of_task.seconds,
        time_of_task.until_s,
        is_main_type=task.item.per == "device" or task.dtypes == main,
    )
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            # Where pytest makes errors of warnings, one of torch's own would end the check and not the operator.
            warnings.simplefilter("ignore")
            outcome = task.item.run(context)
    except Exception as error:
        # Not a finding: the check itself has failed, and says so instead of passing for a result.
        outcome = not_run_for(error)
    return replace(outcome, seconds=time.perf_counter() - started)
