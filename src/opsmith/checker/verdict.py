"""Gives each defect of a report one name, and each finding the calls that show it.

It comes when all results are known. A failure that follows from another is charged to that one (see `blame`). What is
left is called again in a process that has made no call yet: what fails there only after earlier calls depends on them,
which is a defect with a name of its own.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from opsmith.checker.alone import explain
from opsmith.checker.blame import Failure, Key, cause_of, charged_to, key_of, key_of_cause, suspects_of
from opsmith.checker.judge import VALUES
from opsmith.checker.outcome import Outcome, failed, not_run
from opsmith.checker.process.child import Ended, in_child
from opsmith.checker.process.forks import Forks
from opsmith.checker.process.schedule import Task
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.table import PROPERTIES
from opsmith.subject.case import Case
from opsmith.subject.subject import Subject

__all__ = ["AT_TIMES", "Judged", "Verdict"]

# By how a call fails: what that is called, the first that the report has, and what is said of it.
_AFTER_OTHERS = {
    "after": (("state", "determinism"), "It depends on earlier calls, which the program makes."),
    "threaded": (("threads",), "On one thread the same calls give right results."),
}
AT_TIMES = "Called again by itself and after the calls before it, it did not fail: it happens now and then."
# For how long a property that may lie behind a failure tries inputs, and in a check with a limit what part of the rest.
_SECONDS = 5.0
_PART_OF_LIMIT = 0.1
# These are looked at again: their failures are in the values, and a state or a race shows in those.
_EXPLAINED = VALUES | {"gradient", "determinism"}


def _added(message: str, sentence: str) -> str:
    return f"{message}{'' if message.endswith('.') else '.'} {sentence}"


@dataclass
class Judged:
    """A task with its outcome, whether its process died, and the calls that the process had made."""

    task: Task
    outcome: Outcome
    crashed: bool = False
    history: Sequence[Case] = ()

    @property
    def key(self) -> Key:
        """What the row of the report is known by."""
        return key_of(self.task.item.name, self.task.column.device, self.task.dtypes)


@dataclass
class Verdict:
    """Goes over the rows of a report; `forks` are the children in which calls may be made again, None without any."""

    subject: Subject
    rows: list[Judged]
    forks: Forks | None
    silence_s: float
    until_s: float = inf
    _by_key: dict[Key, Judged] = field(default_factory=dict, init=False)
    _again: dict[Key, Outcome] = field(default_factory=dict, init=False)
    _renamed: set[Key] = field(default_factory=set, init=False)

    def reach(self) -> None:
        """Give each row the outcome that the report has for it."""
        self._by_key = {row.key: row for row in self.rows}
        self._charge()
        if self.forks is not None:
            self._import_once()
            for row in self.rows:
                is_failed = row.outcome.state == "failed" and row.task.column.device == "cpu"
                if is_failed and row.key not in self._renamed and self.forks.can_run(row.task):
                    self._look_again(row)
            self._charge()

    def _import_once(self) -> None:
        """Import here what a first call imports for seconds, and not in each child."""
        if hasattr(self.subject.call, "_opoverload") and any(row.outcome.state == "failed" for row in self.rows):
            importlib.import_module("torch._dynamo")

    def _charge(self) -> None:
        """Charge what follows from another failure, until nothing more does."""
        while True:
            failures = self._failures()
            charged = [(row, self._cause(row, failures)) for row in self.rows if row.outcome.state == "failed"]
            # The last one first: of two that could explain each other, the deeper one stays.
            found = [(row, cause) for row, cause in charged if cause is not None]
            if not found:
                return
            row, cause = next(((row, cause) for row, cause in found if self._stands(row, cause, failures)), found[0])
            row.outcome = replace(charged_to(cause, crashed=row.crashed), seconds=row.outcome.seconds)

    def _failures(self) -> dict[Key, Failure]:
        return {row.key: Failure(row.outcome, row.crashed) for row in self.rows if row.outcome.state == "failed"}

    def _cause(self, row: Judged, failures: Mapping[Key, Failure]) -> str | None:
        task = row.task
        return cause_of(task.item.name, task.column.device, task.dtypes, Failure(row.outcome, row.crashed), failures)

    def _stands(self, row: Judged, cause: str, failures: Mapping[Key, Failure]) -> bool:
        """Whether the cause of a failure is not charged to another one itself, which then is the name of both."""
        key = key_of_cause(row.task.item.name, cause, row.task.column.device, row.task.dtypes, failures)
        return self._cause(self._by_key[key], failures) is None

    def _look_again(self, row: Judged) -> None:
        """Call what a row has found in a process that has made no call, and after those before it."""
        task = row.task
        (finding, *rest) = row.outcome.findings
        if (
            finding.case is None
            or task.item.name not in _EXPLAINED
            or time.monotonic() >= self.until_s
            or "hangs" in finding.message
        ):
            return
        context = Context(self.subject, task.column.device, task.dtypes, until_s=self.until_s)
        found, how = explain(context, task.item.name, finding, row.history)
        names, sentence = _AFTER_OTHERS.get(how, ((), ""))
        if sentence:
            found = replace(found, message=_added(found.message, sentence))
        row.outcome = replace(row.outcome, findings=(found, *rest))
        if names and task.item.name in VALUES and not row.crashed:
            self._rename(row, names)
        elif how == "unsteady" and not self._is_from_chance(row):
            row.outcome = replace(
                row.outcome, findings=(replace(found, message=_added(found.message, AT_TIMES)), *rest)
            )

    def _rename(self, row: Judged, names: tuple[str, ...]) -> None:
        """Have the property that is about what was found report it: the first of these that the report has."""
        task = row.task
        keys = [key_of(name, task.column.device, task.dtypes) for name in names]
        about = [self._by_key[key] for key in keys if key in self._by_key]
        if not about:
            return
        # Each may have found it already.
        other = next((one for one in about if one.outcome.state == "failed"), about[0])
        if other.outcome.state != "failed":
            self._renamed.add(other.key)
            seconds = other.outcome.seconds
            findings = [replace(finding, seen_as=row.task.item.name) for finding in row.outcome.findings]
            other.outcome = replace(failed(*findings, inputs=row.outcome.inputs), seconds=seconds)
        row.outcome = replace(charged_to(other.task.item.name), seconds=row.outcome.seconds)

    def _is_from_chance(self, row: Judged) -> bool:
        """Look once more for what depends on chance; a row that finds it now fails with that, and explains this one."""
        task = row.task
        for cause in suspects_of(task.item.name):
            key = key_of(cause, task.column.device, task.dtypes)
            other = self._by_key.get(key)
            if other is None:
                continue
            if other.outcome.state != "failed":
                again = self._again.get(key) or self._run_again(other)
                self._again[key] = again
                if again.state != "failed":
                    continue
                other.outcome = replace(again, seconds=other.outcome.seconds)
            row.outcome = replace(charged_to(cause), seconds=row.outcome.seconds)
            return True
        return False

    def _run_again(self, row: Judged) -> Outcome:
        outcome = not_run("it does not finish")
        # In a check with a limit the others need the time that is left as well.
        seconds = min(_SECONDS, _PART_OF_LIMIT * (self.until_s - time.monotonic()))
        if seconds <= 0:
            return outcome
        (item,) = (item for item in PROPERTIES if item.name == row.task.item.name)
        context = Context(self.subject, row.task.column.device, row.task.dtypes, seconds=seconds, until_s=self.until_s)
        for message in in_child(lambda send: send(item.run(context)), silence_s=self.silence_s, until_s=self.until_s):
            if not isinstance(message, Ended):
                outcome = message
        return outcome
