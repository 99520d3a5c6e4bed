"""How are all properties of an operator checked? One after the other in a child process, so that a crash is a finding."""

from __future__ import annotations

import contextlib
import importlib
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from opsmith.check.blame import Blame
from opsmith.check.crash import crashed, see_earlier
from opsmith.check.isolate import Ended, Send, in_child
from opsmith.check.outcome import Outcome, not_run, not_run_for
from opsmith.check.pace import paced
from opsmith.check.properties import PROPERTIES, Context, Property
from opsmith.check.report import Column, Report, Result
from opsmith.check.snippet import snippet_of
from opsmith.check.subject import Subject
from opsmith.errors import ArgumentError

__all__ = ["Options", "Watcher", "run_check"]


@dataclass(frozen=True)
class Watcher:
    """Who is told how a check goes: of each result, and of what is tried before there is one.

    `on_doing` gets the property's name, the column, and the case that the operator is called with (or a text, or None
    where the property has just begun).
    """

    on_result: Callable[[Result], None] | None = None
    on_doing: Callable[[str, Column, Any], None] | None = None

    def tell_result(self, result: Result) -> None:
        """Tell of a result."""
        if self.on_result is not None:
            self.on_result(result)

    def tell_doing(self, task: _Task, doing: Any) -> None:
        """Tell what is tried."""
        if self.on_doing is not None:
            self.on_doing(task.item.name, task.column, doing)


@dataclass(frozen=True)
class Options:
    """What is checked and how thoroughly.

    `properties` and `dtypes` are names, all by default. `large` includes calls with more than 2^31 elements. `isolate`
    says whether a child process does the work; without one a crash ends the check.
    """

    properties: tuple[Property, ...] = PROPERTIES
    dtypes: tuple[str, ...] = ()
    thorough: bool = False
    large: bool = False
    isolate: bool = True
    silence_s: float = 60.0


@dataclass(frozen=True)
class _Task:
    item: Property
    column: Column
    dtypes: Mapping[str, str]


def run_check(subject: Subject, options: Options | None = None, watch: Watcher | None = None) -> Report:
    """Check an operator and return what was found; `watch` is told of each result as it comes.

    Raises ArgumentError where the operator has none of the element types that `options` names.
    """
    options = options or Options()
    watch = watch or Watcher()
    started = time.perf_counter()
    results: list[Result] = []
    if not options.thorough:
        subject = paced(subject)
    for bare in _results(subject, options, _tasks(subject, options), watch):
        result = _with_snippets(subject, bare)
        results.append(result)
        watch.tell_result(result)
    return Report(subject.name, tuple(results), subject.seed, time.perf_counter() - started, subject.notes)


def _tasks(subject: Subject, options: Options) -> list[_Task]:
    tasks = []
    for device in subject.devices:
        columns = _columns(subject, device, options)
        for item in options.properties:
            if device in item.devices:
                chosen = columns if item.per == "dtype" else columns[:1]
                tasks += [
                    _Task(item, column if item.per == "dtype" else Column(device, ""), dtypes)
                    for column, dtypes in chosen
                ]
    return tasks


def _columns(subject: Subject, device: str, options: Options) -> list[tuple[Column, Mapping[str, str]]]:
    """Return the columns of a device with their element types: one for each floating type, the others as they come.

    Where integer tensors have a choice of their own, its types take turns.
    """
    by_name: dict[str, Mapping[str, str]] = {}
    turn: dict[str, int] = {}
    for dtypes in subject.dtypes:
        name = dtypes.get("T") or next(iter(dtypes.values()), "")
        if name in by_name:
            turn[name] = turn.get(name, 0) + 1
            if turn[name] % 2 == len(by_name) % 2:
                by_name[name] = dtypes
        else:
            by_name[name] = dtypes
    # float64 first: gradcheck and the plainest failures are there, and a reader begins at the left.
    ordered = sorted(by_name.items(), key=lambda pair: _ORDER.get(pair[0], len(_ORDER)))
    found = [
        (Column(device, name), dtypes)
        for name, dtypes in ordered
        if not options.dtypes or name in ("", *options.dtypes)
    ]
    if by_name and not found:
        raise ArgumentError(
            f"{subject.name} is not checked in {', '.join(options.dtypes)}: there are {', '.join(by_name)}"
        )
    return found or [(Column(device, ""), {})]


_ORDER = {name: index for index, name in enumerate(("float64", "float32", "float16", "bfloat16"))}


def _results(subject: Subject, options: Options, tasks: list[_Task], watch: Watcher) -> Iterable[Result]:
    # What is forked from a process that uses a GPU cannot use one.
    spoiled = torch.cuda.is_initialized()
    here = [task for task in tasks if not options.isolate or (spoiled and task.column.device != "cpu")]
    yield from _in_children(subject, options, [task for task in tasks if task not in here], watch)
    for task in here:
        watch.tell_doing(task, None)
        yield Result(task.item.name, task.column, _run(subject, options, task, partial(watch.tell_doing, task)))


def _in_children(subject: Subject, options: Options, tasks: list[_Task], watch: Watcher) -> Iterable[Result]:
    _import_for(tasks)
    left = tasks
    rows = (Blame.row(task.item.name, task.column.device, task.dtypes) for task in tasks)
    blame = Blame(subject, options.silence_s, rows)
    died: list[tuple[str, str]] = []  # property and device
    while left:
        done, doing = 0, None
        ended: Ended | None = None
        batch = _batch(left)
        watch.tell_doing(left[0], None)
        for message in in_child(_worker(subject, options, batch), silence_s=options.silence_s):
            if isinstance(message, Ended):
                ended = message
            elif isinstance(message, Outcome):
                yield _charged(blame, left[done], message)
                done, doing = done + 1, None
                if done < len(left):
                    watch.tell_doing(left[done], None)
            else:
                doing = message
                watch.tell_doing(left[done], doing)
        assert ended is not None
        if done < len(batch):
            task = left[done]
            earlier = [name for name, device in died if device == task.column.device and name != task.item.name]
            context = Context(subject, task.column.device, task.dtypes)
            outcome = see_earlier(context, doing, earlier) or crashed(context, ended, doing)
            result = _charged(blame, task, outcome, crashed=not ended.hung)
            yield result
            if result.outcome.state == "failed":
                died.append((task.item.name, task.column.device))
            done += 1
            # The next column would be silent for as long again, and say the same.
            while ended.hung and done < len(left) and _is_same_row(task, left[done]):
                reason = f"it hangs in {task.column.dtype} already"
                yield Result(task.item.name, left[done].column, not_run(reason))
                done += 1
        left = left[done:]


def _import_for(tasks: list[_Task]) -> None:
    """Import what takes seconds here, once, and not in each child."""
    for name in dict.fromkeys(name for task in tasks for name in task.item.imports):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _charged(blame: Blame, task: _Task, outcome: Outcome, *, crashed: bool = False) -> Result:
    charged = blame.charged(task.item, task.column.device, task.dtypes, outcome, crashed=crashed)
    return Result(task.item.name, task.column, replace(charged, seconds=outcome.seconds))


def _is_same_row(one: _Task, other: _Task) -> bool:
    return (one.item.name, one.column.device) == (other.item.name, other.column.device)


def _batch(left: list[_Task]) -> list[_Task]:
    """Return the tasks for one child: some have one to themselves."""
    alone = [
        index
        for index, task in enumerate(left)
        if (task.item.fresh if task.column.device == "cpu" else task.item.alone)
    ]
    return left if not alone else left[: alone[0] or 1]


def _worker(subject: Subject, options: Options, tasks: list[_Task]) -> Callable[[Send], None]:
    def work(send: Send) -> None:
        for task in tasks:
            _send_outcome(send, _run(subject, options, task, partial(_send_doing, send)))

    return work


def _send_doing(send: Send, doing: Any) -> None:
    try:
        send(doing)
    except Exception:
        # It has an argument that cannot be pickled: what it is called must do.
        send(getattr(doing, "label", "") or repr(doing)[:200])


def _send_outcome(send: Send, outcome: Outcome) -> None:
    try:
        send(outcome)
    except Exception:
        send(replace(outcome, findings=tuple(replace(finding, case=None) for finding in outcome.findings)))


def _run(subject: Subject, options: Options, task: _Task, tell: Callable[[Any], None]) -> Outcome:
    context = Context(subject, task.column.device, task.dtypes, tell, options.thorough, options.large)
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


def _with_snippets(subject: Subject, result: Result) -> Result:
    """Return a result whose findings show their input as a program, where they have one and show none by themselves."""
    findings = []
    for finding in result.outcome.findings:
        if finding.case is not None and not finding.snippet:
            try:
                text = snippet_of(subject, finding.case, result.column.device, result.name)
            except Exception as error:
                text = f"# It could not be written as a program ({type(error).__name__}: {error}): {finding.case.label}"
            findings.append(replace(finding, snippet=text))
        else:
            findings.append(finding)
    return replace(result, outcome=replace(result.outcome, findings=tuple(findings)))
