"""Charges a failure that follows from another defect to that one, so that a defect has one name.

Elements that are not written hold whatever was there, and are wrong in value, in every layout and from call to call. A
write outside of a tensor spoils what the process keeps of its memory, and it dies later, anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from math import inf

from opsmith.checker.outcome import Outcome, not_run
from opsmith.checker.process.child import Ended, in_child
from opsmith.checker.properties.answers import OTHER_RESULT
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.table import PROPERTIES, Property
from opsmith.subject.subject import Subject

__all__ = ["Blame"]

# What depends on memory that is not the kernel's to read, or on which thread comes first, may be wrong anywhere.
_ANYWHERE = ("outputs written", "reads outside", "threads")
# What is another result in each call, or for ordinary numbers, is wrong for other numbers as well.
_VALUES = ("magnitude", "special values", "sizes", "strides", "arguments")
# A property that failed -> what may lie behind it, the likeliest first.
_CAUSES: Mapping[str, tuple[str, ...]] = {
    "determinism": _ANYWHERE,
    "value": (*_ANYWHERE, "determinism"),
    **dict.fromkeys(_VALUES, (*_ANYWHERE, "determinism", "value")),
    "threads": ("outputs written", "reads outside"),
    "large": ("reads outside",),
    # On a GPU what lies behind a copy of an input is filled as new memory is.
    "outputs written": ("reads outside",),
    **dict.fromkeys(("streams", "graph", "devices"), (*_ANYWHERE, "determinism")),
}
# The same where one of these says that a gradient differs.
_CAUSE_OF_GRADIENTS = "gradient"
_IN_GRADIENT = frozenset({"determinism", "threads", "reads outside", "opcheck"})
# The same where the process died; these find out about it themselves.
_CAUSE_OF_CRASHES = "writes outside"
_FIND_CRASHES = frozenset({"writes outside", "outputs written", "bad arguments", "large"})
# These come before the property of sizes, and have large ones too.
_BEFORE_SIZES = frozenset({"magnitude", "special values"})
# For how long a property that may lie behind a failure tries inputs, and in a check with a limit what part of the rest.
_SECONDS = 5.0
_PART_OF_LIMIT = 0.1

# A property on a device in certain element types.
_Row = tuple[str, str, frozenset[tuple[str, str]]]


class Blame:
    """Finds what lies behind failures; each property is run again at most once a check.

    A failure is charged only to a row of the same report, and that row then reports what was found here: a race may
    not show a second time.
    """

    def __init__(self, subject: Subject, silence_s: float, rows: Iterable[_Row], until_s: float = inf) -> None:
        self._subject = subject
        self._silence_s = silence_s
        self._until_s = until_s
        # The rows of the report with their outcomes, None for those that are still to come.
        self._rows: dict[_Row, Outcome | None] = dict.fromkeys(rows)
        self._rerun_outcomes: dict[_Row, Outcome | None] = {}

    @staticmethod
    def row(name: str, device: str, dtypes: Mapping[str, str]) -> _Row:
        """Return what a row of the report is known by; some are there once for all element types."""
        is_for_all = any(item.name == name and item.per == "device" for item in PROPERTIES)
        return name, device, frozenset() if is_for_all else frozenset(dtypes.items())

    def charged(
        self, item: Property, device: str, dtypes: Mapping[str, str], outcome: Outcome, *, crashed: bool
    ) -> Outcome:
        """Return what the report says of a property: its outcome, or a reference to the property that it is due to."""
        row = self.row(item.name, device, dtypes)
        charged = self._charged(row, item, device, dtypes, outcome, crashed=crashed)
        self._rows[row] = charged
        return charged

    def _charged(
        self, row: _Row, item: Property, device: str, dtypes: Mapping[str, str], outcome: Outcome, *, crashed: bool
    ) -> Outcome:
        if outcome.state != "failed":
            earlier = self._rerun_outcomes.get(row)
            return earlier if earlier is not None and earlier.state == "failed" else outcome
        what = "the process died" if crashed else "it fails"
        for cause, state in _suspects(item.name, outcome, crashed):
            if self._ends(self.row(cause, device, dtypes), dtypes, state):
                return not_run(f"{what}, which follows from another defect: see `{cause}`")
        return outcome

    def _ends(self, row: _Row, dtypes: Mapping[str, str], state: str) -> bool:
        """Whether a row of the report ends, or will end, in that state: "failed" or "died"."""
        if row not in self._rows:
            return False
        if (known := self._rows[row]) is not None:
            return known.state == "failed"
        if row not in self._rerun_outcomes:
            self._rerun_outcomes[row] = self._run_again(row, dtypes)
        again = self._rerun_outcomes[row]
        return again is None if state == "died" else again is not None and again.state == state

    def _run_again(self, row: _Row, dtypes: Mapping[str, str]) -> Outcome | None:
        """Return the outcome of a property, or None if its process died."""
        name, device, _ = row
        item = next(item for item in PROPERTIES if item.name == name)
        outcome = not_run("it does not finish")
        # In a check with a limit the others need the time that is left as well.
        seconds = min(_SECONDS, _PART_OF_LIMIT * (self._until_s - time.monotonic()))
        if seconds <= 0:
            return outcome
        context = Context(self._subject, device, dtypes, seconds=seconds, until_s=self._until_s)
        for message in in_child(lambda send: send(item.run(context)), silence_s=self._silence_s, until_s=self._until_s):
            if isinstance(message, Outcome):
                outcome = message
            elif isinstance(message, Ended) and message.crash and not message.hung:
                return None
        return outcome


def _suspects(name: str, outcome: Outcome, crashed: bool) -> Iterator[tuple[str, str]]:
    """Yield the properties that may lie behind a failure, each with how it has to end for that."""
    text = "\n".join(finding.message for finding in outcome.findings)
    if name in _IN_GRADIENT and (crashed or "the gradient of" in text or "Gradients of" in text):
        yield _CAUSE_OF_GRADIENTS, "failed"
    if name == "value" and "alias" in text:  # PyTorch's own refusal of such a result
        yield "aliasing", "failed"
    if crashed and name not in _FIND_CRASHES:
        yield _CAUSE_OF_CRASHES, "failed"
        if name in _BEFORE_SIZES:
            yield "sizes", "died"
        return
    causes = _CAUSES.get(name, ())
    if name == "bad arguments" and all(OTHER_RESULT in line for line in text.splitlines()[1:]):
        causes = ("outputs written", "reads outside")
    yield from ((cause, "failed") for cause in causes)
