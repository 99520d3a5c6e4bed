"""Is a failure only what follows from another defect? Then it is charged to that one, so that a defect has one name.

Elements that are not written hold whatever was there, and are wrong in value, in every layout and from call to call. A
write outside of a tensor spoils what the process keeps of its memory, and it dies later, anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from opsmith.check.isolate import Send, in_child
from opsmith.check.outcome import Outcome, not_run
from opsmith.check.properties import PROPERTIES, Context, Property
from opsmith.check.report import Column
from opsmith.check.subject import Subject

__all__ = ["Blame"]

# A property that failed -> what may lie behind it.
_CAUSES: Mapping[str, str] = dict.fromkeys(
    ("value", "magnitude", "special values", "sizes", "strides", "arguments", "determinism", "threads"),
    "outputs written",
) | {"large": "reads outside"}
# The same where the process died; these find out about it themselves.
_CAUSE_OF_CRASHES = "writes outside"
_FIND_CRASHES = frozenset({"writes outside", "outputs written", "bad arguments", "large"})


class Blame:
    """Finds what lies behind failures; each question is asked once a check."""

    def __init__(self, subject: Subject, silence_s: float) -> None:
        self._subject = subject
        self._silence_s = silence_s
        self._known: dict[tuple[str, Column], bool] = {}

    def charged(
        self, item: Property, column: Column, dtypes: Mapping[str, str], outcome: Outcome, *, crashed: bool
    ) -> Outcome:
        """Return the outcome of a property, or a reference to the property that its failure is due to."""
        cause = _CAUSES.get(item.name)
        if crashed and item.name not in _FIND_CRASHES:
            cause = _CAUSE_OF_CRASHES
        if outcome.state != "failed" or cause is None or not self._fails(cause, column, dtypes):
            return outcome
        what = "the process died" if crashed else "it fails"
        return not_run(f"{what}, which follows from another defect: see `{cause}`")

    def _fails(self, name: str, column: Column, dtypes: Mapping[str, str]) -> bool:
        if (name, column) not in self._known:
            self._known[name, column] = self._ask(name, column, dtypes)
        return self._known[name, column]

    def _ask(self, name: str, column: Column, dtypes: Mapping[str, str]) -> bool:
        item = next(item for item in PROPERTIES if item.name == name)

        def work(send: Send) -> None:
            outcome = item.run(Context(self._subject, column.device, dtypes))
            send(Outcome(outcome.state))

        # A child that dies says nothing: whoever asked has seen the crash itself, and reports it.
        messages = in_child(work, silence_s=self._silence_s)
        return any(isinstance(message, Outcome) and message.state == "failed" for message in messages)
